/*
 * A module crashes in every possible place while messages are written and webhooks are sent,
 * also during reloads. Each time the worker is restarted without a delay, no connection is refused,
 * no acknowledged message is lost, and everything is delivered.
 */
#include <poll.h>

#include "fault/common.h"
#include "fault/crashes.h"
#include "fault/delivered.h"
#include "fault/gaps.h"

enum {
    CALM_MS = 1100, /* a worker that ran for a second is restarted without a delay */
    PAUSE_MS = 20   /* of each writer during that second */
};

/* Text that the log line must contain, and how to make the module crash there. */
static const struct fall {
    const char *place, *way, *ran;
    enum { BY_POST, BY_ITSELF, BY_NOTICE, BY_RELOAD, BY_KILL } by;
} falls[] = {
    {"handler", "segv", "module=crash ran=handler what=\"POST /crash\" request=", BY_POST},
    {"handler", "overflow", "guard=\"the stack of a fiber overflowed\" module=crash", BY_POST},
    {"handler", "exit", "exit=\"exit()\" module=crash ran=handler", BY_POST},
    {"hook", "segv", "module=crash ran=hook what=crash.went", BY_POST},
    {"hook", "_exit", "exit=\"_exit()\" module=crash ran=hook what=crash.went", BY_POST},
    {"committed", "abort", "module=crash ran=\"committed hook\" what=crash.went", BY_POST},
    {"committed", "overflow", "guard=\"the stack of a fiber overflowed\" module=crash", BY_POST},
    {"pool", "segv", "module=crash ran=pool what=\"deep, POST /crash\" request=", BY_POST},
    {"pool", "_exit", "exit=\"_exit()\" module=crash ran=pool", BY_POST},
    {"job", "segv", "module=crash ran=job what=crash-job", BY_ITSELF},
    {"job", "overflow", "guard=\"the stack of a fiber overflowed\" module=crash", BY_ITSELF},
    {"worker", "divide", "module=crash ran=worker what=extra", BY_ITSELF},
    {"worker", "exit", "exit=\"exit()\" module=crash ran=worker what=extra", BY_ITSELF},
    {"channel", "segv", "module=crash ran=channel what=crash_told", BY_NOTICE},
    {"open", "segv", "module=crash ran=open", BY_RELOAD},
    {"open", "exit", "exit=\"exit()\" module=crash ran=open", BY_RELOAD},
    {"start", "segv", "module=crash ran=start", BY_RELOAD},
    {"quiesce", "segv", "module=crash ran=quiesce", BY_RELOAD},
    {"close", "abort", "module=crash ran=close", BY_RELOAD},
    {"constructor", "segv", "ran=constructor", BY_KILL},
};

struct stand {
    struct scene *scene;
    struct receiver *receiver;
    struct gaps *gaps;
    const char *order;
    PGconn *db;
};

static struct stand stand_make(void)
{
    struct stand stand = {.order = harness_path("crash_load.order")};
    struct host_spec spec = {.modules =
                                 text("[auth, chat, health, webhook, \"%s\"]", crash_module()),
                             .log = "  access: false\n",
                             .more = text("%shost:\n  state: \"%s\"\n  quarantine: false\n",
                                          WEBHOOK_LOCAL, harness_path("crash_load.state")),
                             .environment = crash_environment(stand.order),
                             .plain = true,
                             .supervised = true};

    stand.scene = scene_make("crash_load", &spec, 1, SCENE_ENDLESS);
    stand.receiver = receiver_start("crash_load");
    stand.scene->load.writers = 4;
    stand.scene->load.pause_ms = PAUSE_MS;
    stand.scene->load.fresh = true; /* libcurl would post twice on a kept connection */
    webhook_make(stand.scene->hosts[0], stand.scene->admin,
                 receiver_url(stand.receiver, "/crash_load"), "message.new");
    stand.db = database_connect(stand.scene->pg, stand.scene->database);
    stand.gaps = gaps_begin(stand.scene->hosts[0]);
    return stand;
}

static void go(const struct stand *stand, const struct fall *fall, pid_t worker)
{
    struct host *host = stand->scene->hosts[0];
    int status;

    if (fall->by == BY_POST)
        http(host, "POST", "/crash", NULL, NULL);
    else if (fall->by == BY_NOTICE)
        sql_run(stand->db, "NOTIFY crash_told");
    else if (fall->by == BY_RELOAD)
        host_ask(host, "reload", &status);
    else if (fall->by == BY_KILL)
        kill(worker, SIGKILL);
}

/* Messages are acknowledged before and after the crash. */
static void fall_and_return(const struct stand *stand, const struct fall *fall)
{
    struct host *host = stand->scene->hosts[0];
    pid_t worker = worker_of(host, 0);

    scene_recovery(stand->scene);
    poll(NULL, 0, CALM_MS);
    scene_rush(stand->scene);
    size_t before = host_log_size(host);

    file_write(stand->order, text("%s %s\n", fall->place, fall->way));
    go(stand, fall, worker);
    worker_of(host, worker);
    scene_calm(stand->scene, PAUSE_MS);
    const char *line = crash_line(host, before);

    ck_assert_msg(strstr(line, fall->ran) != NULL, "%s: %.600s", fall->place, line);
    ck_assert_ptr_nonnull(strstr(crash_report(line), "backtrace:"));
    host_logs(host, before, "the worker exited and is restarted");
    host_logs(host, before, "delay_ms=0");
    status_soon(host, "/api/health", NULL, 200);
    scene_recovery(stand->scene);
    host_logs(host, before, "the previous worker exited");
}

TEST(a_module_crash_anywhere_under_load_loses_no_message_or_delivery)
{
    struct stand stand = stand_make();
    size_t count = sizeof falls / sizeof *falls;

    scene_begin(stand.scene);
    for (size_t i = 0; i < count; i++)
        fall_and_return(&stand, &falls[i]);
    scene_stop(stand.scene);
    gaps_end(stand.gaps, "crash_load");
    delivered_all(stand.scene, stand.receiver, "/crash_load", count + 1);
    scene_expect_ledger(stand.scene);
    ck_assert_int_gt(atomic_load(&stand.scene->load.cut), 0);
    scene_end(stand.scene);
}

FAULT_SUITE(crash_load)
