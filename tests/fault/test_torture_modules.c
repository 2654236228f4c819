/*
 * Background work that gets no memory. A request, a job or a database task may then end
 * halfway. Its waiters must be notified, or the module hangs forever.
 */
#include <poll.h>
#include <sys/wait.h>

#include "fault/common.h"
#include "fault/torture.h"
#include "meter.h"
#include "receive.h"

enum {
    REFUSED_MS = 3000,
    REFUSED_LEAST = 100,
    LISTED = 300,
    READINGS = 40,
    ROUNDS = 300,
    DEEPEST = 150,
    PQ_ROUNDS = 160,
    PQ_DEEPEST = 40,
    CURL_DEEPEST = 80,
    PAGE_DEEPEST = 100,
    SECRET_DEEPEST = 16,
    READ_MS = 300, /* until the sender reads a changed webhook again */
    PAD = 5000,    /* bytes of a target, so that the next target is in separate memory */
    CAUGHT_MS = 60000,
    ARM_MS = 20,
    SETTLED_MS = 45000
};

#define EXPORT "/api/certificate-log/export.csv"
#define LIST "/api/chat/webhooks"
#define MODULES                                                                                    \
    "[auth, chat, device, reading, certificate, webhook, health, metrics]\n"                       \
    "webhook:\n  allow_networks: [\"127.0.0.0/8\"]\n  timeout: 10"

struct works {
    struct rack rack;
    struct host *host;
    struct person *admin, *owner;
    struct talk talk;
    struct receiver *receiver;
    struct webhook_made webhook;
    PGconn *db;
    int turn;
};

/* Makes LISTED webhooks, so that their list is sent in pages. They receive no deliveries. */
static void list_make(const struct works *works)
{
    sql_run(works->db,
            text("INSERT INTO webhook_hook (id, account, url, events, secret, active, admitted,"
                 " sees_all, organisations, email) SELECT nextval('webhook_hook_id'), account,"
                 " url, events, secret, false, admitted, sees_all, organisations, email"
                 " FROM webhook_hook, generate_series(1, %d) WHERE id = %jd",
                 LISTED, works->webhook.id));
}

static void works_open(struct works *works, const char *name)
{
    works->rack = rack_make(name);
    struct host_spec spec = rack_spec(name, &works->rack);

    spec.modules = MODULES;
    works->host = host_start(&spec);
    works->db = database_connect(the_postgres, name);
    works->admin = admin_of(works->host);
    works->owner = person_make(works->host, works->admin, "olga", NULL);
    works->talk = talk_start(works->host, works->admin, ADMIN_EMAIL, "other@shop.example", "Roof");
    works->receiver = receiver_start(name);
    webhook_ready(name, 1);
    works->webhook = webhook_make(works->host, works->admin,
                                  receiver_url(works->receiver, "/ok/torture"), "message.new");
    list_make(works);
    meter_make(works->host, works->owner, "plant", 10, days_ago(100));
}

/* Makes one call of each module in turn. It may fail only because memory is short. */
static void work_once(struct works *works)
{
    int n = works->turn++;
    const struct host *at = works->host;
    int64_t day = days_ago(99) + n / 6 % 90 * DAY_MS + n / 540 * HOUR_MS;
    struct answer *answer = NULL;

    switch (n % 6) {
    case 0:
        answer = talk_post(at, works->admin, &works->talk, ADMIN_EMAIL, "memory is short");
        break;
    case 1:
        answer = meter_read(at, works->owner, "plant", "Delta", day, day + HOUR_MS, 10);
        break;
    case 2:
        answer = http(at, "GET", EXPORT, works->owner->token, NULL);
        break;
    case 3:
        answer = http(at, "PATCH", "/api/device/plant", works->owner->token,
                      json_pack("{si}", "capacity", 10 + n % 7));
        break;
    case 4:
        answer = http(at, "GET", LIST, works->admin->token, NULL);
        break;
    default:
        answer = webhook_call(at, works->admin, "GET", &works->webhook, "/deliveries");
    }
    ck_assert_msg(answer->status == 200 || answer->status == 201 || answer->status == 409 ||
                      answer->status == 503 || answer->status == 0,
                  "call %d is answered %ld: %s", n, answer->status, answer->body);
}

/* Returns a list of stuck work as text; "": none. */
static const char *standing(const struct works *works)
{
    return sql_text(works->db,
                    "SELECT concat((SELECT 'deliveries: ' || count(*) FROM webhook_queued"
                    " WHERE true HAVING count(*) > 0),"
                    " (SELECT 'leases: ' || count(*) FROM webhook_host"
                    " WHERE heartbeat_at >= now() - interval '6 s' HAVING count(*) <> 1),"
                    " (SELECT 'cycles: ' || count(*) FROM certificate_due"
                    " WHERE cycle_end <= now() HAVING count(*) > 0))",
                    0, NULL);
}

static void expect_settled(struct works *works)
{
    bool settled = false;

    WAIT_FOR(settled = !*standing(works), SETTLED_MS);
    expect_running(works->host);
    ck_assert_msg(settled, "blocked: %s", standing(works));
}

/* Stored texts are complete. Without memory, jansson may silently drop a part. */
static void expect_whole(const struct works *works)
{
    sql_is(works->db, 0,
           "SELECT count(*) FROM chat_entry WHERE chat_entry NOT IN"
           " ('memory is short', 'short', 'two deliveries', 'enough again')"
           " AND chat_entry NOT LIKE 'first entry of %%'");
}

/* All stored work is done, the lease is alive, and the host stops as usual. */
static void works_over(struct works *works)
{
    const char *issue[] = {"certificate", "issue", NULL};

    expect_running(works->host);
    expect_whole(works);
    status_soon(works->host, "/api/health", NULL, 200);
    host_command(works->host, (const char *const[]){NULL}, issue);
    expect_settled(works);
    size_t before = receiver_count(works->receiver, "/ok/torture");

    ck_status(talk_post(works->host, works->admin, &works->talk, ADMIN_EMAIL, "enough again"), 201);
    expect_settled(works);
    ck_assert_uint_gt(receiver_count(works->receiver, "/ok/torture"), before);
    ck_status(http(works->host, "GET", EXPORT, works->owner->token, NULL), 200);
    ck_status(http(works->host, "GET", LIST, works->admin->token, NULL), 200);
    host_stop(works->host);
}

/* Stops the failures; at least this many allocations must have failed. */
static void expect_failed(struct works *works, long least)
{
    struct torture *numbers = works->rack.numbers;

    rack_arm(&works->rack, 0);
    atomic_store(&numbers->refused_from, 0);
    ck_assert_int_ge(atomic_load(&numbers->failed), least);
}

/* A request's first block has 3 KiB, so with the first limit it cannot begin; with the lower ones
 * it ends anywhere. All of them together take longer than a lease lasts. */
static const long refused_from[] = {3000, 1000, 300, 100};

TEST(memory_short_for_seconds_stops_no_module)
{
    struct works works = {.turn = 0};

    works_open(&works, "torture_long");
    for (int i = 0; i < READINGS; i++)
        work_once(&works);
    for (size_t i = 0; i < sizeof refused_from / sizeof *refused_from; i++) {
        int64_t until = now_ms() + REFUSED_MS;

        atomic_store(&works.rack.numbers->refused_from, refused_from[i]);
        while (now_ms() < until) {
            work_once(&works);
            poll(NULL, 0, 10); /* the pace of the calls */
        }
    }
    expect_failed(&works, REFUSED_LEAST);
    works_over(&works);
}

/* Makes the nth allocation of a library (NULL: any) fail while the modules work; n runs from 1 up
 * to `deepest`, repeatedly. */
static void refuse_each(struct works *works, const char *library, int rounds, int deepest)
{
    char *only = works->rack.numbers->only;

    snprintf(only, sizeof works->rack.numbers->only, "%s", library ? library : "");
    for (int i = 0; i < rounds; i++) {
        rack_arm(&works->rack, i % deepest + 1);
        work_once(works);
        rack_failed(&works->rack, ARM_MS);
    }
}

TEST(a_failed_allocation_stops_no_module)
{
    struct works works = {.turn = 0};

    works_open(&works, "torture_once");
    refuse_each(&works, NULL, ROUNDS, DEEPEST);
    expect_failed(&works, ROUNDS / 2);
    works_over(&works);
}

/* A connection that waits for a result which libpq has dropped would block all later statements. */
TEST(a_failed_allocation_of_libpq_stops_no_connection)
{
    struct works works = {.turn = 0};

    works_open(&works, "torture_pq");
    refuse_each(&works, "/libpq.so", PQ_ROUNDS, PQ_DEEPEST);
    expect_failed(&works, PQ_ROUNDS / 5);
    works_over(&works);
}

/* A delivery that libcurl has dropped would block the webhook's other deliveries. */
TEST(a_failed_allocation_of_libcurl_blocks_no_delivery)
{
    struct works works = {.turn = 0};

    works_open(&works, "torture_curl");
    strcpy(works.rack.numbers->only, "/libcurl.so");
    for (int n = 1; n <= CURL_DEEPEST; n++) {
        rack_arm(&works.rack, n);
        ck_status(talk_post(works.host, works.admin, &works.talk, ADMIN_EMAIL, "short"), 201);
        rack_failed(&works.rack, ARM_MS);
    }
    expect_failed(&works, CURL_DEEPEST / 8);
    works_over(&works);
}

/* Makes two of everything that is listed in pages. */
static void pages_make(const struct works *works)
{
    struct host *at = works->host;
    int64_t day = days_ago(90);

    meter_make(at, works->owner, "second plant", 10, days_ago(100));
    ck_status(meter_series(at, works->owner, "plant", "History", day, HOUR_MS, 2, 2000), 201);
    host_command(at, (const char *const[]){NULL},
                 (const char *const[]){"certificate", "issue", NULL});
    for (int i = 0; i < 2; i++) {
        ck_status(http(at, "POST", "/api/device-group", works->owner->token,
                       json_pack("{ss ss ss s[I]}", "name", text("Group %d", i), "frequency",
                                 "daily", "start", date_text(day), "deviceIds",
                                 (json_int_t)sql_number(works->db, text("SELECT id FROM device"
                                                                        " ORDER BY id LIMIT 1"
                                                                        " OFFSET %d",
                                                                        i)))),
                  201);
        ck_status(talk_post(at, works->admin, &works->talk, ADMIN_EMAIL, "two deliveries"), 201);
    }
}

/* No response may omit the link to the next page, because it would look like the last page. */
static void expect_next(struct works *works, const char *path, const char *token)
{
    const char *target = text("%s?limit=1&pad=%0*d", path, PAD, 0);
    int whole = 0;

    ck_assert_ptr_nonnull(
        answer_header(ck_status(http(works->host, "GET", target, token, NULL), 200), "Link"));
    for (int n = 1; n <= PAGE_DEEPEST; n++) {
        rack_arm(&works->rack, n);
        struct answer *answer = http(works->host, "GET", target, token, NULL);

        rack_arm(&works->rack, 0);
        whole += answer->status == 200;
        ck_assert_msg(answer->status == 200 || answer->status == 503 || answer->status == 0,
                      "%s: %ld %s", path, answer->status, answer->body);
        ck_assert_msg(answer->status != 200 || answer_header(answer, "Link"),
                      "%s has no link to the next page in run %d", path, n);
    }
    ck_assert_int_gt(whole, 0);
}

TEST(a_page_cut_short_by_lack_of_memory_is_not_taken_as_the_last)
{
    struct works works = {.turn = 0};

    works_open(&works, "torture_page");
    pages_make(&works);
    expect_next(&works, "/api/admin/users", works.admin->token);
    expect_next(&works, "/api/device", works.owner->token);
    expect_next(&works, "/api/meter-reads/new/plant", works.owner->token);
    expect_next(&works, "/api/certificate-log", works.owner->token);
    expect_next(&works, "/api/device-group", works.owner->token);
    expect_next(&works, "/api/chat/webhooks", works.admin->token);
    expect_next(&works, text("/api/chat/webhooks/%jd/deliveries", works.webhook.id),
                works.admin->token);
    works_over(&works);
}

/* Both secrets sign for a day, however often the sender reads the webhook again. */
TEST(a_webhook_secret_without_memory_is_not_omitted_from_signatures)
{
    struct works works = {.turn = 0};
    struct catcher *catcher = catcher_start((const char *const[]){ANSWER_OK, NULL});

    works_open(&works, "torture_secret");
    struct webhook_made made =
        webhook_make(works.host, works.admin, catcher_url(catcher, "x"), "message.new");

    ck_status(webhook_call(works.host, works.admin, "POST", &made, "/rotate-secret"), 200);
    ck_status(talk_post(works.host, works.admin, &works.talk, ADMIN_EMAIL, "short"), 201);
    catcher_wait(catcher, 1, CAUGHT_MS);
    strcpy(works.rack.numbers->only, "/fd/"); /* path of modules' private copies */
    for (int n = 1; n <= SECRET_DEEPEST; n++) {
        rack_arm(&works.rack, n);
        webhook_change(works.host, works.admin, &made, json_pack("{sb}", "active", 1));
        rack_failed(&works.rack, READ_MS);
        rack_arm(&works.rack, 0);
        ck_status(talk_post(works.host, works.admin, &works.talk, ADMIN_EMAIL, "short"), 201);
        const struct caught *caught = catcher_wait(catcher, (size_t)n + 1, CAUGHT_MS);

        ck_assert_msg(strchr(caught_header(caught, "webhook-signature"), ' '),
                      "only one signature after allocation %d failed", n);
    }
    fprintf(stderr, "torture_secret: %ld allocations failed\n",
            atomic_load(&works.rack.numbers->failed));
    expect_failed(&works, 4);
    ck_assert_uint_eq(host_logged(works.host, "secret cannot be opened"), 0);
    ck_status(webhook_call(works.host, works.admin, "DELETE", &made, ""), 200);
    works_over(&works);
}

FAULT_SUITE(torture_modules)
