/* Acceptance: many writers, one conversation, nothing lost, also through a kill -9 of the host. */
#include <pthread.h>
#include <sys/stat.h>

#include "ledger.h"
#include "people.h"
#include "suites.h"

enum { WRITERS = 20, MESSAGES = 10000, SECONDS = 240 };

#define USER "ledger@shop.example"

static char *directory_make(const char *name)
{
    char *directory = harness_path(text("ledger-%s", name));

    ck_assert_int_eq(mkdir(directory, 0700), 0);
    return directory;
}

/* A conversation on a host of its own, with the ledger's load prepared for it. */
struct scene {
    const char *database, *directory;
    struct host *host;
    atomic_int port;
    char *head;
    struct person *admin;
    struct ledger_load load;
    int outcome;
};

static void scene_make(struct scene *scene, const char *name, long messages)
{
    scene->database = database_make(the_postgres, name);
    scene->directory = directory_make(name);
    scene->host = host_start(&(struct host_spec){.name = name, .database = scene->database});
    atomic_store(&scene->port, scene->host->port);
    scene->admin = admin_of(scene->host);
    struct answer *answer =
        http(scene->host, "POST", "/api/chat/conversations/start", scene->admin->token,
             json_pack("{ss ss ss ss}", "participant1", USER, "participant2", ADMIN_EMAIL,
                       "username", USER, "chatEntry", "before the ledger begins"));
    const json_t *conversation = json_object_get(ck_status(answer, 201)->json, "conversation");

    scene->head = text("%s", json_string_value(json_object_get(conversation, "headUuid")));
    scene->load = (struct ledger_load){.ledger = ledger_open(scene->directory),
                                       .address = "127.0.0.1",
                                       .port = &scene->port,
                                       .token = scene->admin->token,
                                       .conversation =
                                           json_integer_value(json_object_get(conversation, "id")),
                                       .authors = {USER, ADMIN_EMAIL},
                                       .writers = WRITERS,
                                       .count = messages,
                                       .seconds = SECONDS};
    ck_assert_ptr_nonnull(scene->load.ledger);
}

static void *run_load(void *arg)
{
    struct scene *scene = arg;

    scene->outcome = ledger_load(&scene->load);
    return NULL;
}

/* The chain as the API tells it: all entries, each naming the one behind it. */
static void expect_chain(const struct scene *scene, size_t entries)
{
    struct answer *chain = http(scene->host, "GET", text("/api/chat/chain/%s", scene->head),
                                scene->admin->token, NULL);

    ck_assert_uint_eq(json_array_size(ck_status(chain, 200)->json), entries);
    for (size_t i = 0; i < entries; i++) {
        const json_t *next = json_object_get(json_array_get(chain->json, i), "nextEntryUuid");
        const json_t *uuid = i + 1 < entries
                                 ? json_object_get(json_array_get(chain->json, i + 1), "uuid")
                                 : json_null();

        ck_assert(json_equal(next, uuid));
    }
}

static struct ledger_report expect_ledger(struct scene *scene)
{
    PGconn *db = database_connect(the_postgres, scene->database);
    struct ledger_report report;
    char line[512];

    ledger_close(scene->load.ledger);
    ck_assert_int_eq(ledger_check(scene->directory, db, true, &report), 0);
    PQfinish(db);
    ledger_report_text(&report, line, sizeof line);
    ck_assert_msg(ledger_adds_up(&report), "%s", line);
    return report;
}

START_TEST(twenty_writers_make_one_chain)
{
    struct scene scene = {.outcome = -1};

    scene_make(&scene, "ledger_writers", MESSAGES);
    run_load(&scene);
    ck_assert_int_eq(scene.outcome, 0);
    struct ledger_report report = expect_ledger(&scene);

    ck_assert_int_eq(atomic_load(&scene.load.refused), 0);
    ck_assert_uint_ge(report.acknowledged, MESSAGES);
    expect_chain(&scene, report.stored + 1);
    host_stop(scene.host);
}

struct progress {
    struct scene *scene;
    long messages;
};

static bool reached(void *arg)
{
    const struct progress *progress = arg;

    return atomic_load(&progress->scene->load.acknowledged) >= progress->messages;
}

START_TEST(a_kill_of_the_host_loses_nothing)
{
    struct scene scene = {.outcome = -1};
    pthread_t thread;

    scene_make(&scene, "ledger_kill", MESSAGES);
    ck_assert_int_eq(pthread_create(&thread, NULL, run_load, &scene), 0);
    ck_assert(wait_until(reached, &(struct progress){&scene, MESSAGES / 2}, SECONDS * 1000));
    host_kill(scene.host);
    ck_assert(host_run(scene.host));
    atomic_store(&scene.port, scene.host->port);
    pthread_join(thread, NULL);
    ck_assert_int_eq(scene.outcome, 0);
    struct ledger_report report = expect_ledger(&scene);

    expect_chain(&scene, report.stored + 1);
    host_stop(scene.host);
}

Suite *ledger_suite(void)
{
    Suite *suite = suite_create("ledger");
    TCase *tests = tcase_create("ledger");

    tcase_set_timeout(tests, SECONDS + 60);
    tcase_add_test(tests, twenty_writers_make_one_chain);
    tcase_add_test(tests, a_kill_of_the_host_loses_nothing);
    suite_add_tcase(suite, tests);
    return suite;
}
