#include <semaphore.h>

#include "core/module/engine.h"
#include "core/module/pool.h"
#include "core/module/quota.h"
#include "core/module/reply.h"
#include "suite.h"

enum { QUEUE = 4096, BEYOND = 2, CALLS = 1 + QUEUE + BEYOND };
enum { SHARE = (1 + QUEUE) / 4, ANNA = 1, BERT = 2, WIDE = 3 };

/* The host's own pool. It has one thread, because no engine sets more. */
#define OWN "bodies"

static const struct host_settings of_the_host = {.http.client_percent = 25};
static struct generation generation = {.host = &of_the_host};
static struct loop loop;
static struct pool_call calls[CALLS];
static sem_t begun, go;
static atomic_int runs;
static int heard, awaited;

static void block(void *arg)
{
    (void)arg;
    sem_post(&begun);
    sem_wait(&go);
    atomic_fetch_add(&runs, 1);
}

static void run(void *arg)
{
    (void)arg;
    atomic_fetch_add(&runs, 1);
}

static void hear(struct message *message)
{
    (void)message;
    loop.stop = ++heard == awaited;
}

static int submit_for(int64_t account, uint64_t subject, int number, void (*function)(void *),
                      bool bounded)
{
    calls[number] = (struct pool_call){.message.run = hear,
                                       .loop = &loop,
                                       .owner.account = account,
                                       .subject = subject,
                                       .run = function,
                                       .arg = &calls[number]};
    return pool_submit(generation.pools, NULL, OWN, &calls[number], bounded);
}

static int submit_of(int64_t account, int number, void (*function)(void *), bool bounded)
{
    return submit_for(account, 0, number, function, bounded);
}

static int submit(int number, void (*function)(void *), bool bounded)
{
    return submit_of(0, number, function, bounded);
}

/* Runs the loop until this many more calls have been reported. */
static void hear_of(int count)
{
    awaited = heard + count;
    loop.stop = false;
    loop_run(&loop);
    ck_assert_int_eq(heard, awaited);
}

static void set_up(void)
{
    heard = 0;
    atomic_store(&runs, 0);
    atomic_store(&generation.holders, 1);
    ck_assert_int_eq(loop_init(&loop, NULL, 0), 0);
    sem_init(&begun, 0, 0);
    sem_init(&go, 0, 0);
    generation.pools = work_pools_new(&generation);
    ck_assert_ptr_nonnull(generation.pools);
    ck_assert_int_eq(submit(0, block, true), 0);
    sem_wait(&begun);
}

static void tear_down(void)
{
    work_pools_free(generation.pools);
    loop_free(&loop);
    sem_destroy(&begun);
    sem_destroy(&go);
}

static void fill(void)
{
    for (int i = 1; i <= QUEUE; i++)
        ck_assert_int_eq(submit(i, run, true), 0);
}

TEST(a_full_queue_refuses_calls_until_there_is_room)
{
    struct work_pool_status status;

    fill();
    ck_assert_int_eq(submit(QUEUE + 1, run, true), -1);
    ck_assert(work_pool_snapshot(generation.pools, 0, &status));
    ck_assert_uint_eq(status.busy, 1);
    ck_assert_uint_eq(status.waiting, QUEUE);
    ck_assert_uint_eq(status.queue, QUEUE);
    sem_post(&go);
    hear_of(1 + QUEUE);
    ck_assert_int_eq(atomic_load(&runs), 1 + QUEUE);
    ck_assert_int_eq(submit(QUEUE + 1, run, true), 0);
    hear_of(1);
}

/* Unlimited calls are for callers that have one call in progress and cannot continue without it. */
TEST(an_unlimited_call_is_accepted_by_a_full_queue)
{
    fill();
    ck_assert_int_eq(submit(QUEUE + 1, run, false), 0);
    ck_assert_int_eq(submit(QUEUE + 2, run, true), -1);
    sem_post(&go);
    hear_of(2 + QUEUE);
    ck_assert_int_eq(atomic_load(&runs), 2 + QUEUE);
}

static void offload(struct core_request *rq)
{
    if (pool_run(rq, run, NULL))
        reply_failed(rq);
    else
        reply_bytes(rq, 204, NULL, 0);
}

static void ended(struct core_request *rq)
{
    (void)rq;
    loop.stop = true;
}

static struct core_request *request_new(void)
{
    struct core_request *rq = request_make(sizeof *rq, REQUEST_COMMAND, &loop, &generation);

    ck_assert_ptr_nonnull(rq);
    rq->entry = offload;
    rq->ended = ended;
    return rq;
}

TEST(a_request_is_503_at_once_if_the_queue_is_full)
{
    struct core_request *rq = request_new();

    fill();
    ck_assert(request_start(rq));
    ck_assert_int_eq(rq->response.status, 503);
    ck_assert_str_eq(reply_header_get(rq, "Retry-After"), "1");
    request_free(rq);
    sem_post(&go);
    hear_of(1 + QUEUE);
    ck_assert_int_eq(atomic_load(&runs), 1 + QUEUE);
    rq = request_new();
    loop.stop = false;
    ck_assert(!request_start(rq));
    loop_run(&loop);
    ck_assert_int_eq(rq->response.status, 204);
    request_free(rq);
}

/* The call has not begun, so it is removed from the queue and never runs. */
TEST(a_request_at_its_deadline_removes_its_waiting_call)
{
    struct core_request *rq = request_new();

    rq->deadline_ms = loop.now_ms + 20;
    ck_assert(!request_start(rq));
    loop_run(&loop);
    ck_assert_int_eq(rq->response.status, 503);
    ck_assert_int_eq(rq->failure.kind, FAILED_DEADLINE);
    request_free(rq);
    sem_post(&go);
    hear_of(1);
    ck_assert_int_eq(submit(1, run, true), 0);
    hear_of(1);
    ck_assert_int_eq(atomic_load(&runs), 2);
}

static int64_t order[CALLS];
static atomic_int ordered;

static void note(void *arg)
{
    const struct pool_call *call = arg;

    order[atomic_fetch_add(&ordered, 1)] = call->owner.account;
}

/* However many calls an owner has waiting, another owner waits for only one of them. */
TEST(owners_take_turns_in_a_pool)
{
    atomic_store(&ordered, 0);
    for (int i = 1; i <= 20; i++)
        ck_assert_int_eq(submit_of(ANNA, i, note, true), 0);
    for (int i = 21; i <= 23; i++)
        ck_assert_int_eq(submit_of(BERT, i, note, true), 0);
    sem_post(&go);
    hear_of(1 + 23);
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(order[i], i % 2 ? BERT : ANNA);
    for (int i = 6; i < 23; i++)
        ck_assert_int_eq(order[i], ANNA);
}

static struct core_request *request_of_account(enum request_kind kind, int64_t account)
{
    struct core_request *rq = request_new();

    rq->kind = kind;
    rq->owner.account = account;
    return rq;
}

/* `waits`: the deadline of the call is soon, and ends it. */
static int status_of(enum request_kind kind, int64_t account, bool waits)
{
    struct core_request *rq = request_of_account(kind, account);

    rq->deadline_ms = loop.now_ms + (waits ? 20 : 60000);
    loop.stop = false;
    if (!request_start(rq))
        loop_run(&loop);
    int status = rq->response.status;

    if (status == 429)
        ck_assert_str_eq(reply_header_get(rq, "Retry-After"), "1");
    request_free(rq);
    return status;
}

TEST(an_owner_is_limited_to_its_share_of_a_pool)
{
    unsigned long long before = quota_refused(QUOTA_POOLS, true);
    struct work_pool_status status;

    ck_assert(work_pool_snapshot(generation.pools, 0, &status));
    ck_assert_uint_eq(status.each, SHARE);
    for (int i = 1; i <= SHARE; i++)
        ck_assert_int_eq(submit_of(ANNA, i, run, true), 0);
    ck_assert_int_eq(status_of(REQUEST_HTTP, ANNA, false), 429);
    ck_assert_uint_eq(quota_refused(QUOTA_POOLS, true), before + 1);
    /* these wait, and their deadline expires first */
    ck_assert_int_eq(status_of(REQUEST_HTTP, BERT, true), 503);
    ck_assert_int_eq(status_of(REQUEST_JOB, ANNA, true), 503);
    ck_assert_uint_eq(quota_refused(QUOTA_POOLS, true), before + 1);
    sem_post(&go);
    hear_of(1 + SHARE);
    ck_assert_int_eq(status_of(REQUEST_HTTP, ANNA, false), 204);
}

/* A running call counts in the share until it returns. */
TEST(a_removed_call_does_not_count_in_the_share)
{
    for (int i = 1; i < SHARE; i++)
        ck_assert_int_eq(submit_of(ANNA, i, run, true), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(status_of(REQUEST_HTTP, ANNA, true), 503);
    ck_assert_int_eq(submit_of(ANNA, SHARE, run, true), 0);
    ck_assert_int_eq(status_of(REQUEST_HTTP, ANNA, false), 429);
    sem_post(&go);
    hear_of(1 + SHARE);
}

enum { TARGET = 7 };

/* Many callers for one subject: another caller waits for two of them, not for all. */
TEST(calls_for_one_subject_wait_in_one_queue)
{
    atomic_store(&ordered, 0);
    for (int i = 1; i <= 20; i++)
        ck_assert_int_eq(submit_for(100 + i, TARGET, i, note, true), 0);
    ck_assert_int_eq(submit_of(BERT, 21, note, true), 0);
    sem_post(&go);
    hear_of(1 + 21);
    ck_assert_int_eq(order[2], BERT);
}

/* A caller for many subjects still counts as one. */
TEST(a_caller_for_many_subjects_waits_in_one_queue)
{
    atomic_store(&ordered, 0);
    for (int i = 1; i <= 20; i++)
        ck_assert_int_eq(submit_for(ANNA, (uint64_t)(2 * i), i, note, true), 0);
    ck_assert_int_eq(submit_of(BERT, 21, note, true), 0);
    sem_post(&go);
    hear_of(1 + 21);
    ck_assert_int_eq(order[1], BERT);
}

TEST(a_subject_is_limited_to_its_share_of_a_pool)
{
    for (int i = 1; i <= SHARE; i++)
        ck_assert_int_eq(submit_for(100 + i, TARGET, i, note, true), 0);
    ck_assert_int_eq(submit_for(99, TARGET, SHARE + 1, note, true), -1);
    ck_assert_int_eq(submit_for(99, TARGET + 1000, SHARE + 1, note, true), 0);
    sem_post(&go);
    hear_of(1 + SHARE + 1);
    for (int i = 1; i <= SHARE; i++)
        ck_assert_int_eq(submit_for(100 + i, TARGET, i, note, true), 0);
    hear_of(SHARE);
}

static void wait_for_go(void *arg)
{
    sem_post(&begun);
    sem_wait(arg);
}

/* With one event loop the host's own pool has two threads. */
TEST(a_single_call_does_not_wait_for_those_of_an_owner_with_many)
{
    struct engine engine = {.loop_count = 1};
    struct generation before = generation;
    struct work_pool_status status;
    static sem_t end;

    sem_init(&end, 0, 0);
    generation.engine = &engine;
    generation.pools = work_pools_new(&generation);
    ck_assert_int_eq(submit(1, block, true), 0); /* occupies the first thread */
    sem_wait(&begun);
    for (int i = 2; i <= 4; i++) {
        calls[i] = (struct pool_call){.message.run = hear,
                                      .loop = &loop,
                                      .owner.account = ANNA,
                                      .run = wait_for_go,
                                      .arg = &end};
        ck_assert_int_eq(pool_submit(generation.pools, NULL, OWN, &calls[i], true), 0);
    }
    sem_wait(&begun);
    sem_post(&go);
    sem_post(&go); /* ends the call of set_up() */
    hear_of(2);
    ck_assert_int_eq(submit_of(BERT, 5, run, true), 0);
    hear_of(1);
    ck_assert(work_pool_snapshot(generation.pools, 0, &status));
    ck_assert_uint_eq(status.waiting, 2);
    for (int i = 2; i <= 4; i++)
        sem_post(&end);
    hear_of(3);
    work_pools_free(generation.pools);
    generation = before;
}

static const struct bb_pool wide_descriptor = {.name = "wide", .threads = WIDE, .queue = QUEUE};
static const struct bb_module wide_module = {
    .name = "wide", .pools = {&wide_descriptor, 1, sizeof(struct bb_pool)}};

static unsigned wide_threads(struct work_pools *pools)
{
    struct work_pool_status status;

    ck_assert(work_pool_snapshot(pools, 1, &status));
    ck_assert_uint_eq(status.threads, WIDE);
    return status.started;
}

static void submit_wide(struct work_pools *pools, const struct bb_host *host, int number)
{
    calls[number] = (struct pool_call){.message.run = hear, .loop = &loop, .run = block};
    ck_assert_int_eq(pool_submit(pools, host, "wide", &calls[number], true), 0);
}

TEST(a_pool_starts_a_thread_when_all_are_busy)
{
    struct core_module module = {.descriptor = &wide_module};
    struct generation wide = {.host = &of_the_host, .modules = &module, .module_count = 1};
    struct work_pools *pools;

    module.handle.host.module = &wide_module;
    pools = work_pools_new(&wide);
    ck_assert_ptr_nonnull(pools);
    ck_assert_uint_eq(wide_threads(pools), 1);
    for (int i = 1; i <= WIDE + 1; i++) {
        submit_wide(pools, &module.handle.host, i);
        ck_assert_uint_eq(wide_threads(pools), i < WIDE ? (unsigned)i : WIDE);
        if (i <= WIDE)
            sem_wait(&begun);
    }
    for (int i = 0; i < WIDE + 2; i++) /* including the call that set_up() made */
        sem_post(&go);
    hear_of(WIDE + 2);
    submit_wide(pools, &module.handle.host, 1);
    sem_post(&go);
    hear_of(1);
    ck_assert_uint_eq(wide_threads(pools), WIDE);
    work_pools_free(pools);
}

SUITE(pool, .before_each = set_up, .after_each = tear_down)
