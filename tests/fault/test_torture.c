/*
 * F28, F29: allocations and threads that cannot be had. The build without sanitizers, for those
 * bring an allocator of their own. A failure may cost the request that met it, or at the start the
 * host, which then says so and ends by itself; it may cost nobody else anything.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "fault/common.h"
#include "fault/torture.h"

enum {
    ARMS = 1500,
    DEEPEST = 250,
    ARM_MS = 200,
    STARTS = 40,
    START_STEP = 23,
    THREADS_MAX = 12,
    ROOM = 6 << 20,
    BIG = 1000000,
    BIG_WRITERS = 8,
    TIGHT_MS = 5000
};

static struct scene *scene_on_rack(const char *name, const struct rack *rack)
{
    return scene_make(name, &(struct host_spec){.plain = true, .environment = rack->environment}, 1,
                      ENOUGH);
}

static bool used_up(void *counter)
{
    return atomic_load((atomic_long *)counter) == 0;
}

/* A host that gave up must have ended by itself. */
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

START_TEST(an_allocation_that_fails_costs_one_request_at_most)
{
    struct rack rack = rack_make("torture");
    struct scene *scene = scene_on_rack("fault_torture", &rack);
    int ends = 0;

    scene->load.fresh = true;
    scene_begin(scene);
    scene_wait(scene, 100);
    for (int i = 0; i < ARMS; i++) {
        atomic_store(&rack.numbers->allocations, i % DEEPEST + 1);
        wait_until(used_up, &rack.numbers->allocations, ARM_MS);
        keep_alive(scene, &ends);
    }
    atomic_store(&rack.numbers->allocations, 0);
    scene_recovery(scene, BACK_MS);
    fprintf(stderr, "fault_torture: %ld allocations failed, the host ended %d times\n",
            atomic_load(&rack.numbers->failed), ends);
    ck_assert_int_gt(atomic_load(&rack.numbers->failed), ARMS / 2);
    fault_over(scene, NULL, NULL);
    ck_assert_int_eq(atomic_load(&scene->load.wrong), 0);
}

/* Starts it with a counter at n: it listens, is healthy and stops; or it has ended by itself, with
 * a status that says so. Returns whether it listened. */
static bool start_with(struct host *host, atomic_long *counter, long n)
{
    atomic_store(counter, n);
    bool up = host_run(host);
    bool failed = atomic_load(counter) == 0;

    atomic_store(counter, 0);
    if (!up) {
        ck_assert_msg(WIFEXITED(host->status) && WEXITSTATUS(host->status) != 0,
                      "call %ld: wait status %d, see %s", n, host->status, host->log);
        return false;
    }
    expect_soon(host, "/api/health", NULL, 200);
    host_stop(host);
    return failed;
}

START_TEST(an_allocation_that_fails_at_the_start_is_told_or_borne)
{
    struct rack rack = rack_make("torture-start");
    struct host *host =
        host_prepare(&(struct host_spec){.name = "torture-start",
                                         .database = database_make(the_postgres, "torture_start"),
                                         .plain = true,
                                         .environment = rack.environment});
    int borne = 0;

    atomic_store(&rack.numbers->spare_crypto, 1);
    for (int i = 0; i < STARTS; i++)
        borne += start_with(host, &rack.numbers->allocations, 1 + (long)i * START_STEP);
    fprintf(stderr, "torture_start: of %ld failures %d were borne\n",
            atomic_load(&rack.numbers->failed), borne);
    ck_assert_int_gt(atomic_load(&rack.numbers->failed), STARTS / 4);
}

/* ---- a real limit ---- */

struct big_writer {
    struct scene *scene;
    int64_t conversation;
    pthread_t thread;
    atomic_bool *over;
    long wrong;
};

static json_t *big_message(void)
{
    char *entry = malloc(BIG + 1);

    ck_assert_ptr_nonnull(entry);
    memset(entry, 'x', BIG);
    entry[BIG] = '\0';
    json_t *body = json_pack("{ss ss}", "username", ADMIN_EMAIL, "chatEntry", entry);

    free(entry);
    return body;
}

static void *write_big(void *arg)
{
    struct big_writer *writer = arg;
    const char *path = text("/api/chat/conversations/%jd/messages", (intmax_t)writer->conversation);
    const struct scene *scene = writer->scene;

    while (!atomic_load(writer->over)) {
        long status =
            http(scene->hosts[0], "POST", path, scene->admin->token, big_message())->status;

        writer->wrong += status != 201 && status != 503 && status != 0;
    }
    return NULL;
}

static int64_t another_conversation(const struct scene *scene)
{
    struct answer *answer =
        http(scene->hosts[0], "POST", "/api/chat/conversations/start", scene->admin->token,
             json_pack("{ss ss ss ss}", "participant1", "big@shop.example", "participant2",
                       ADMIN_EMAIL, "username", ADMIN_EMAIL, "chatEntry", "big ones follow"));

    return json_integer_value(
        json_object_get(json_object_get(ck_status(answer, 201)->json, "conversation"), "id"));
}

static rlim_t data_of(pid_t pid)
{
    const char *line = strstr(file_text(text("/proc/%d/status", (int)pid)), "VmData:");

    ck_assert_ptr_nonnull(line);
    return (rlim_t)strtoull(line + 7, NULL, 10) * 1024;
}

/* Messages of a megabyte from many at once, and a few megabytes for all of them. */
START_TEST(a_limit_of_memory_refuses_what_does_not_fit)
{
    struct scene *scene = scene_make("fault_memory", &(struct host_spec){.plain = true}, 1, ENOUGH);
    struct host *host = scene->hosts[0];
    struct big_writer writers[BIG_WRITERS];
    atomic_bool over = false;
    struct rlimit before, tight;
    int ends = 0;

    scene->load.fresh = true;
    scene_begin(scene);
    scene_wait(scene, 100);
    ck_assert_int_eq(prlimit(host->pid, RLIMIT_DATA, NULL, &before), 0);
    tight = before;
    tight.rlim_cur = data_of(host->pid) + ROOM;
    ck_assert_int_eq(prlimit(host->pid, RLIMIT_DATA, &tight, NULL), 0);
    int64_t conversation = another_conversation(scene), end = now_ms() + TIGHT_MS;

    for (int i = 0; i < BIG_WRITERS; i++) {
        writers[i] = (struct big_writer){scene, conversation, .over = &over};
        ck_assert_int_eq(pthread_create(&writers[i].thread, NULL, write_big, &writers[i]), 0);
    }
    while (now_ms() < end) {
        keep_alive(scene, &ends);
        poll(NULL, 0, 10);
    }
    atomic_store(&over, true);
    for (int i = 0; i < BIG_WRITERS; i++) {
        pthread_join(writers[i].thread, NULL);
        ck_assert_int_eq(writers[i].wrong, 0);
    }
    if (!ends)
        ck_assert_int_eq(prlimit(host->pid, RLIMIT_DATA, &before, NULL), 0);
    fprintf(stderr, "fault_memory: recovery %jd ms\n", (intmax_t)scene_recovery(scene, BACK_MS));
    load_more(scene, 100);
    fault_over(scene, NULL, NULL);
    ck_assert_int_eq(atomic_load(&scene->load.wrong), 0);
}

/* ---- F29 ---- */

START_TEST(a_thread_that_cannot_be_had_ends_the_start_or_is_done_without)
{
    struct rack rack = rack_make("threads");
    struct host *host =
        host_prepare(&(struct host_spec){.name = "threads",
                                         .database = database_make(the_postgres, "fault_threads"),
                                         .http = "  loops: 3\n",
                                         .modules = "[auth, chat, health, webhook]",
                                         .plain = true,
                                         .environment = rack.environment});
    int borne = 0;

    for (int n = 1; n <= THREADS_MAX; n++)
        borne += start_with(host, &rack.numbers->threads, n);
    fprintf(stderr, "fault_threads: of %ld failures %d were borne\n",
            atomic_load(&rack.numbers->failed), borne);
    ck_assert_int_gt(atomic_load(&rack.numbers->failed), 4);
    ck_assert(host_run(host));
    expect_soon(host, "/api/auth/me", NULL, 401);
    host_stop(host);
}

FAULT(F28, a_limit_of_memory_refuses_what_does_not_fit,
      an_allocation_that_fails_costs_one_request_at_most,
      an_allocation_that_fails_at_the_start_is_told_or_borne)
FAULT(F29, a_thread_that_cannot_be_had_ends_the_start_or_is_done_without)
