#include "scene.h"

#include <sys/stat.h>

#define USER "ledger@shop.example"

long scene_messages(void)
{
    const char *given = getenv("BUSBAR_TEST_MESSAGES");

    return given ? strtol(given, NULL, 10) : repetitions(400, 1200);
}

static void start_hosts(struct scene *scene, const char *name, const struct host_spec *given,
                        int hosts)
{
    for (int i = 0; i < hosts; i++) {
        struct host_spec spec = given ? *given : (struct host_spec){0};

        spec.name = text("%s-%d", name, i);
        spec.database = scene->database;
        scene->hosts[i] = host_start(&spec);
        atomic_store(&scene->ports[i], scene->hosts[i]->port);
    }
}

struct scene *scene_make(const char *name, const struct host_spec *spec, int hosts, long messages)
{
    struct scene *scene = kept(calloc(1, sizeof *scene));

    scene->pg = spec && spec->pg ? spec->pg : the_postgres;
    scene->database = database_make(scene->pg, name);
    scene->directory = harness_path(text("ledger-%s", name));
    ck_assert_int_eq(mkdir(scene->directory, 0700), 0);
    start_hosts(scene, name, spec, hosts);
    scene->admin = admin_of(scene->hosts[0]);
    struct answer *answer =
        http(scene->hosts[0], "POST", "/api/chat/conversations/start", scene->admin->token,
             json_pack("{ss ss ss ss}", "participant1", USER, "participant2", ADMIN_EMAIL,
                       "username", USER, "chatEntry", "before the ledger begins"));
    const json_t *conversation = json_object_get(ck_status(answer, 201)->json, "conversation");

    scene->head = text("%s", json_string_value(json_object_get(conversation, "headUuid")));
    scene->load = (struct ledger_load){.ledger = ledger_open(scene->directory),
                                       .address = "127.0.0.1",
                                       .port = scene->ports,
                                       .hosts = hosts,
                                       .token = scene->admin->token,
                                       .conversation =
                                           json_integer_value(json_object_get(conversation, "id")),
                                       .authors = {USER, ADMIN_EMAIL},
                                       .writers = SCENE_WRITERS,
                                       .count = messages,
                                       .pause_ms = messages == SCENE_ENDLESS ? SCENE_PAUSE_MS : 0,
                                       .seconds = SCENE_SECONDS};
    return scene;
}

static void *run_load(void *arg)
{
    struct scene *scene = arg;

    scene->outcome = ledger_load(&scene->load);
    return NULL;
}

void scene_begin(struct scene *scene)
{
    ck_assert_int_eq(pthread_create(&scene->thread, NULL, run_load, scene), 0);
}

void scene_finish(struct scene *scene)
{
    pthread_join(scene->thread, NULL);
    ck_assert_int_eq(scene->outcome, 0);
}

void scene_stop(struct scene *scene)
{
    atomic_store(&scene->load.acknowledged, SCENE_ENDLESS);
    scene_finish(scene);
}

void scene_wait(struct scene *scene, long messages)
{
    WAIT_UNTIL(atomic_load(&scene->load.acknowledged) >= messages, SCENE_SECONDS * 1000);
}

void scene_more(struct scene *scene, long messages)
{
    scene_wait(scene, atomic_load(&scene->load.acknowledged) + messages);
}

void scene_rush(struct scene *scene)
{
    atomic_store(&scene->load.pause_ms, 0);
    scene_more(scene, 5L * scene->load.writers);
}

void scene_calm(struct scene *scene, int pause_ms)
{
    atomic_store(&scene->load.pause_ms, pause_ms);
}

int64_t scene_recovery(struct scene *scene)
{
    int64_t began = now_ms();

    scene_more(scene, 1);
    int64_t took = now_ms() - began;

    fprintf(stderr, "%s: recovery %jd ms\n", scene->database, took);
    return took;
}

void scene_restart(struct scene *scene, int host)
{
    ck_assert(host_run(scene->hosts[host]));
    atomic_store(&scene->ports[host], scene->hosts[host]->port);
}

/* The first message is not in the ledger. */
static void expect_chain(const struct scene *scene, size_t stored)
{
    struct answer *chain = http(scene->hosts[0], "GET", text("/api/chat/chain/%s", scene->head),
                                scene->admin->token, NULL);
    size_t count = json_array_size(ck_status(chain, 200)->json);

    ck_assert_uint_eq(count, stored + 1);
    for (size_t i = 0; i < count; i++) {
        const json_t *next = json_object_get(json_array_get(chain->json, i), "nextEntryUuid");
        const json_t *uuid = i + 1 < count
                                 ? json_object_get(json_array_get(chain->json, i + 1), "uuid")
                                 : json_null();

        ck_assert(json_equal(next, uuid));
    }
}

struct ledger_report scene_expect_ledger(struct scene *scene)
{
    PGconn *db = database_connect(scene->pg, scene->database);
    struct ledger_report report = ledger_check(scene->directory, db);

    PQfinish(db);
    fprintf(stderr, "%s: %s; refused %ld, cut %ld, slowest %ld ms\n", scene->database, report.text,
            atomic_load(&scene->load.refused), atomic_load(&scene->load.cut),
            atomic_load(&scene->load.slowest_ms));
    expect_chain(scene, report.stored);
    return report;
}

void scene_end(struct scene *scene)
{
    ledger_close(scene->load.ledger);
    for (int i = 0; i < SCENE_HOSTS && scene->hosts[i]; i++)
        host_stop(scene->hosts[i]);
}

/* ---- requests of GET /api/health meanwhile ---- */

enum { SAMPLES_MIN = 100, SAMPLES_MS = 20000 };

struct watch {
    const struct host *host;
    pthread_t thread;
    atomic_bool over;
    atomic_int count, failures;
};

static void *watch_health(void *arg)
{
    struct watch *watch = arg;
    CURL *connection = client_open();
    struct call call = {.method = "GET", .path = "/api/health", .connection = connection};

    while (!atomic_load(&watch->over)) {
        atomic_fetch_add(&watch->failures, http_send(watch->host, &call)->status != 200);
        atomic_fetch_add(&watch->count, 1);
        usleep(20000); /* the pace of the requests */
    }
    curl_easy_cleanup(connection);
    return NULL;
}

struct watch *watch_begin(const struct host *host)
{
    struct watch *watch = kept(calloc(1, sizeof *watch));

    watch->host = host;
    ck_assert_int_eq(pthread_create(&watch->thread, NULL, watch_health, watch), 0);
    WAIT_UNTIL(atomic_load(&watch->count) > 0, SAMPLES_MS);
    return watch;
}

void watch_end(struct watch *watch, const char *name)
{
    WAIT_UNTIL(atomic_load(&watch->count) >= SAMPLES_MIN, SAMPLES_MS);
    atomic_store(&watch->over, true);
    pthread_join(watch->thread, NULL);
    ck_assert_msg(!atomic_load(&watch->failures), "%s: %d of %d health requests failed", name,
                  atomic_load(&watch->failures), atomic_load(&watch->count));
}
