/* When jobs are due. The test sets the clock, and no run begins: it remains a waiting request. */
#include "core/lib/log.h"
#include "core/lib/loop.h"
#include "core/main/job.h"
#include "core/module/engine.h"
#include "core/module/request.h"
#include "suite.h"

enum { JOBS = 5, PERIOD_S = 3600, STEP_MS = 500, PAUSE_MS = 20000, SPREAD_MS = 5000 };

static struct loop loop;
static struct engine engine;
static struct generation generation;
static struct jobs *jobs;
static int64_t now_ms;

static void run(struct bb_request *rq)
{
    (void)rq;
}

static void set_up(void)
{
    static const struct bb_job own[JOBS] = {{"test.a", PERIOD_S, 0, run},
                                            {"test.b", PERIOD_S, 0, run},
                                            {"test.c", PERIOD_S, 0, run},
                                            {"test.d", PERIOD_S, 0, run},
                                            {"test.e", PERIOD_S, 0, run}};
    static const struct bb_module descriptor = {.jobs = BB_TABLE(own)};
    static struct core_module module = {.descriptor = &descriptor};
    static char listener; /* not NULL: there is a database */

    log_level(BB_ERROR, false);
    generation =
        (struct generation){.holders = 1, .engine = &engine, .modules = &module, .module_count = 1};
    engine = (struct engine){.generation = &generation, .loops = &loop, .loop_count = 1};
    engine.pg_listener = (struct pg_listener *)(void *)&listener;
    pthread_mutex_init(&engine.lock, NULL);
    ck_assert_int_eq(loop_init(&loop, &engine, 0), 0);
    generation.jobs = jobs = jobs_new(&engine, &generation);
    ck_assert_ptr_nonnull(jobs);
    now_ms = loop.now_ms = timer_beat(loop.now_ms, STEP_MS);
    jobs_begin(jobs, NULL, &loop);
}

static void tear_down(void)
{
    jobs_end(jobs, &loop);
    while (!LIST_EMPTY(&loop.alive))
        request_free(LIST_FIRST(&loop.alive));
    free(jobs);
    loop_free(&loop);
    pthread_mutex_destroy(&engine.lock);
}

/* Lets the time pass; no two runs may start at once. Returns the number of runs so far. */
static size_t pass(int64_t ms)
{
    for (int64_t end = now_ms + ms; now_ms < end;) {
        size_t before = loop.requests;

        loop.now_ms = now_ms += STEP_MS;
        timers_run(&loop.timers, now_ms);
        ck_assert_uint_le(loop.requests, before + 1);
    }
    return loop.requests;
}

TEST(jobs_run_one_after_another_after_a_start)
{
    pause_note(&engine, NULL);
    ck_assert_uint_eq(pass(2 * SPREAD_MS), JOBS + 1); /* with the host's own */
}

/* Runs the only message that was posted to the loop. */
static void deliver(void)
{
    struct message *message = STAILQ_FIRST(&loop.inbox);

    ck_assert_ptr_nonnull(message);
    ck_assert_ptr_null(STAILQ_NEXT(message, next));
    STAILQ_INIT(&loop.inbox);
    message->run(message);
}

TEST(a_called_job_runs_at_once)
{
    pause_note(&engine, NULL);
    ck_assert(!jobs_call(&engine, "test"));
    ck_assert(jobs_call(&engine, "test.c"));
    ck_assert(jobs_call(&engine, "test.c")); /* has no further effect */
    deliver();
    ck_assert_uint_eq(pass(2 * STEP_MS), 1);
    ck_assert_uint_eq(pass(2 * SPREAD_MS), JOBS + 1); /* the other jobs run when they are due */
}

TEST(jobs_run_one_after_another_after_a_pause)
{
    pause_note(&engine, "the test");
    ck_assert_uint_eq(pass(PAUSE_MS), 0);
    pause_note(&engine, NULL);
    ck_assert_uint_eq(pass(SPREAD_MS), JOBS + 1);
}

/* Gives the loop the jobs of a next generation. The caller frees the result, the jobs before. */
static struct jobs *reload(void)
{
    struct jobs *before = jobs;

    generation.jobs = jobs = jobs_new(&engine, &generation);
    ck_assert_ptr_nonnull(jobs);
    jobs_begin(jobs, before, &loop);
    jobs_end(before, &loop);
    return before;
}

TEST(a_job_that_asks_to_run_again_does_so_after_a_reload)
{
    pause_note(&engine, NULL);
    ck_assert_uint_eq(pass(2 * SPREAD_MS), JOBS + 1);
    struct core_request *rq = LIST_FIRST(&loop.alive);

    api_again(&rq->pub);
    struct jobs *before = reload();

    STAILQ_INIT(&loop.ready); /* no run waits any more */
    STAILQ_INIT(&loop.patient);
    rq->ended(rq);
    deliver();
    ck_assert_uint_eq(pass(STEP_MS), JOBS + 1); /* the run after the reload has begun */
    free(before);
}

TEST(jobs_run_one_after_another_after_a_pause_with_a_reload)
{
    pause_note(&engine, "the test");
    ck_assert_uint_eq(pass(PAUSE_MS), 0);
    free(reload());
    pause_note(&engine, NULL);
    ck_assert_uint_eq(pass(SPREAD_MS), JOBS + 1);
}

SUITE(jobs, .before_each = set_up, .after_each = tear_down)
