/*
 * Allocations that fail. Uses the build without sanitizers, because these have their own
 * allocator. A failed allocation may end the request that needed it, or the start of the host,
 * which then reports it and exits; it must affect nothing else.
 */
#include <poll.h>
#include <sys/wait.h>

#include "fault/common.h"
#include "fault/group.h"
#include "fault/proxy.h"
#include "fault/torture.h"
#include "talk.h"
#include "wire.h"

enum {
    ARMS = 1500,
    DEEPEST = 250,
    CONNECTS = 60,
    CONNECT_DEEPEST = 20,
    ARM_MS = 200,
    STARTS = 40,
    START_STEP = 23,
    BIG = 1000000,
    BIG_WRITERS = 8,
    BIG_EACH = 5,
    BIG_MS = 20000,
    GROUP_BYTES = 128 << 20,
    IDLE_ONES = 1000,
    ENOUGH_MS = 5000,
    FULL_FROM = 800,
    FULL_TO = 1000,
    NEXT_DEEPEST = 60,
    KEYS_DEEPEST = 20
};

/* A host that ended must have exited by itself. */
static void keep_alive(struct scene *scene, int *ends)
{
    struct host *host = scene->hosts[0];
    int status = 0;

    if (!process_wait(host->pid, 0, &status))
        return;
    ck_assert_msg(WIFEXITED(status), "the host ended by signal %d", WTERMSIG(status));
    (*ends)++;
    scene_restart(scene, 0);
}

TEST(a_failed_allocation_fails_at_most_one_request)
{
    struct rack rack = rack_make("torture");
    struct host_spec spec = {.plain = true, .environment = rack.environment};
    struct scene *scene = scene_make("fault_torture", &spec, 1, SCENE_ENDLESS);
    int ends = 0;

    scene->load.fresh = true;
    load_begin(scene);
    for (int i = 0; i < ARMS; i++) {
        rack_arm(&rack, i % DEEPEST + 1);
        rack_failed(&rack, ARM_MS);
        keep_alive(scene, &ends);
    }
    rack_arm(&rack, 0);
    scene_recovery(scene);
    fprintf(stderr, "fault_torture: %ld allocations failed, the host ended %d times\n",
            atomic_load(&rack.numbers->failed), ends);
    ck_assert_int_gt(atomic_load(&rack.numbers->failed), ARMS / 2);
    fault_over(scene);
}

/* A library that makes a connection allocates often, and must check each result. */
TEST(a_failed_allocation_while_redis_connects_ends_nothing)
{
    const char *directory = harness_path("redis-torture.proxy");

    process_service_directory(directory);
    const char *through = text("%s/redis.sock", directory);
    struct proxy *proxy = proxy_start(through, the_redis);
    struct rack rack = rack_make("torture-redis");
    struct host_spec spec = rack_spec("torture_redis", &rack);

    spec.redis = through;
    struct host *host = host_start(&spec);

    status_soon(host, "/api/health/status", NULL, 200);
    proxy_set(proxy, PROXY_CUT, 1); /* connections are cut at their first response */
    for (int i = 0; i < CONNECTS; i++) {
        rack_arm(&rack, i % CONNECT_DEEPEST + 1);
        ck_assert(rack_failed(&rack, BACK_MS));
        expect_running(host);
    }
    proxy_set(proxy, PROXY_PASS, 0);
    status_soon(host, "/api/health/status", NULL, 200);
}

TEST(a_failed_allocation_at_startup_is_reported_or_tolerated)
{
    struct rack rack = rack_make("torture-start");
    struct host_spec spec = rack_spec("torture_start", &rack);
    struct host *host = host_prepare(&spec);
    int borne = 0;

    atomic_store(&rack.numbers->spare_crypto, 1);
    for (int i = 0; i < STARTS; i++)
        borne += rack_start(host, &rack.numbers->allocations, 1 + (long)i * START_STEP);
    fprintf(stderr, "torture_start: %ld failures, of which the host survived %d\n",
            atomic_load(&rack.numbers->failed), borne);
    ck_assert_int_gt(atomic_load(&rack.numbers->failed), STARTS / 4);
}

/* Sends the request on a connection that is in use while the nth allocation fails. Returns the
 * status; 0: the connection ended without a response. */
static int ask_tortured(const struct host *host, const struct rack *rack, long n,
                        const char *request)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, "GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert_int_eq(wire_read(wire, ENOUGH_MS)->status, 200);
    rack_arm(rack, n);
    wire_say(wire, "%s", request);
    const struct wire_answer *answer = wire_read(wire, ENOUGH_MS);

    rack_arm(rack, 0);
    wire_close(wire, false);
    expect_running(host);
    return answer ? answer->status : 0;
}

/* The target and the path fill a request's first block completely, or leave a few bytes. */
TEST(a_request_whose_first_arena_block_is_full_does_not_end_the_host)
{
    struct rack rack = rack_make("torture-full");
    struct host_spec spec = rack_spec("torture_full", &rack);
    struct host *host = host_start(&spec);
    int refused = 0;

    for (int length = FULL_FROM; length <= FULL_TO; length += 16) {
        const char *request = text("GET /%0*d HTTP/1.1\r\nHost: x\r\n\r\n", length - 1, 0);

        for (long n = 1; n <= 3; n++)
            refused += ask_tortured(host, &rack, n, request) == 503;
    }
    ck_assert_int_gt(refused, 0);
}

#define BAD_LOGIN                                                                                  \
    "POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"               \
    "Content-Length: 21\r\n\r\n{\"username\":[\"text\"]}"

/* The 503 belongs to that request; later requests are checked as usual. */
TEST(a_request_without_memory_does_not_affect_the_next)
{
    struct rack rack = rack_make("torture-next");
    struct host_spec spec = rack_spec("torture_next", &rack);

    spec.http = "  loops: 1\n";
    struct host *host = host_start(&spec);
    int refused = 0;

    for (long n = 1; n <= NEXT_DEEPEST; n++) {
        refused += ask_tortured(host, &rack, n, BAD_LOGIN) == 503;
        ck_wire_error(wire_ask(host, "GET /api/nope HTTP/1.1\r\nHost: x\r\n\r\n"), 404);
    }
    ck_assert_int_gt(refused, 0);
}

/* Returns a token signed by a key that `other` has not loaded yet. */
static const char *token_of_new_key(const struct host *one)
{
    ck_status(http(one, "POST", "/api/admin/rotate-secret", admin_of(one)->token, NULL), 200);
    return admin_of(one)->token;
}

/* An allocation of a library fails while a host loads the keys. A valid token never gets a 401. */
static void load_keys_tortured(const struct host *one, const struct host *other,
                               const struct rack *rack, const char *library)
{
    long failed = atomic_load(&rack->numbers->failed);

    snprintf(rack->numbers->only, sizeof(rack->numbers->only), "%s", library);
    for (long n = 1; n <= KEYS_DEEPEST; n++) {
        const char *token = token_of_new_key(one);

        rack_arm(rack, n);
        struct answer *answer = http(other, "GET", "/api/auth/me", token, NULL);

        rack_arm(rack, 0);
        ck_assert_msg(answer->status == 200 || answer->status == 503, "%s, %ld: %ld %s", library, n,
                      answer->status, answer->body);
        ck_status(http(other, "GET", "/api/auth/me", token, NULL), 200);
        /* a round needs up to two look-ups of unknown keys; a host makes at most 20 per second */
        poll(NULL, 0, 120);
    }
    ck_assert_msg(atomic_load(&rack->numbers->failed) > failed, "no allocation of %s failed",
                  library);
}

TEST(signing_keys_without_memory_refuse_no_token)
{
    const char *database = database_make(the_postgres, "torture_keys");
    struct rack rack = rack_make("torture-keys");
    struct host_spec spec = {.name = "torture-keys-1", .database = database, .plain = true};
    struct host *one = host_start(&spec);

    spec.name = "torture-keys-2";
    spec.environment = rack.environment;
    struct host *other = host_start(&spec);

    load_keys_tortured(one, other, &rack, "/fd/"); /* modules: private copies */
    load_keys_tortured(one, other, &rack, "/libcrypto.so");
}

/* ---- a control group ---- */

struct big_writer {
    const struct scene *scene;
    const struct talk *talk;
    pthread_t thread;
    atomic_bool *over;
    atomic_int *stored; /* messages of all writers */
    long wrong;
};

static void *write_big(void *arg)
{
    struct big_writer *writer = arg;
    const struct scene *scene = writer->scene;
    const char *entry = text_repeated("x", BIG);

    while (!atomic_load(writer->over)) {
        long status =
            talk_post(scene->hosts[0], scene->admin, writer->talk, ADMIN_EMAIL, entry)->status;

        atomic_fetch_add(writer->stored, status == 201);
        writer->wrong += status != 201 && status != 503 && status != 0;
    }
    return NULL;
}

struct crowd {
    struct talk talk;
    struct big_writer writers[BIG_WRITERS];
    atomic_bool over;
    atomic_int stored;
};

/* Many clients post messages of a megabyte at the same time. */
static struct crowd *crowd_begin(struct scene *scene)
{
    struct crowd *crowd = kept(calloc(1, sizeof *crowd));

    crowd->talk = talk_start(scene->hosts[0], scene->admin, ADMIN_EMAIL, "big@shop.example", NULL);
    for (int i = 0; i < BIG_WRITERS; i++) {
        struct big_writer *writer = &crowd->writers[i];

        *writer = (struct big_writer){scene, &crowd->talk, .over = &crowd->over,
                                      .stored = &crowd->stored};
        ck_assert_int_eq(pthread_create(&writer->thread, NULL, write_big, writer), 0);
    }
    return crowd;
}

static void crowd_end(struct crowd *crowd)
{
    WAIT_UNTIL(atomic_load(&crowd->stored) >= BIG_EACH * BIG_WRITERS, BIG_MS);
    atomic_store(&crowd->over, true);
    for (int i = 0; i < BIG_WRITERS; i++) {
        pthread_join(crowd->writers[i].thread, NULL);
        ck_assert_int_eq(crowd->writers[i].wrong, 0);
    }
}

TEST(memory_of_128_mib_is_enough_for_many_clients)
{
    struct group *group = group_make("memory");

    if (!group)
        return;
    group_limit(group, GROUP_BYTES);
    struct host_spec spec = {.plain = true, .wrapper = group->wrapper};
    struct scene *scene = scene_make("fault_group", &spec, 1, SCENE_ENDLESS);

    scene->load.fresh = true;
    load_begin(scene);
    scene->watch = watch_begin(scene->hosts[0]);
    struct wire *idle[IDLE_ONES];

    for (int i = 0; i < IDLE_ONES; i++)
        idle[i] = wire_open(scene->hosts[0]);
    struct crowd *crowd = crowd_begin(scene);

    scene_more(scene, 500);
    crowd_end(crowd);
    fprintf(stderr, "fault_group: %ld of %d bytes used\n", group_used(group), GROUP_BYTES);
    ck_assert_int_eq(group_kills(group), 0);
    for (int i = 0; i < IDLE_ONES; i++)
        wire_close(idle[i], false);
    fault_over(scene);
    ck_assert_int_eq(atomic_load(&scene->load.cut), 0);
    group_end(group);
}

FAULT_SUITE(torture)
