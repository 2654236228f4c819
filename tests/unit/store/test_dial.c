/* Connecting on helper threads: which of two attempts counts, and an owner that does not wait. */
#include <semaphore.h>

#include "core/store/dial.h"
#include "suite.h"

enum { MANY = 20, THREADS = 8, ATTEMPTS = 2 };

/* The behavior of the two attempts. */
struct plan {
    bool waits[2]; /* the attempt waits for `go` */
    bool fails[2];
};

static sem_t go, begun, closed;
static char connections[ATTEMPTS];
static void *closed_connection;
static struct loop loop;

/* The last result. */
static void *got;
static char reason[DIAL_PROBLEM];

static void *plan_connect(const void *to, bool again, char problem[DIAL_PROBLEM])
{
    const struct plan *plan = to;

    sem_post(&begun);
    if (plan->waits[again])
        while (sem_wait(&go))
            ;
    snprintf(problem, DIAL_PROBLEM, "%s", again ? "attempt 2 failed" : "attempt 1 failed");
    return plan->fails[again] ? NULL : &connections[again];
}

static void plan_close(void *connection)
{
    closed_connection = connection;
    sem_post(&closed);
}

static const struct dial_kind once = {plan_connect, plan_close, 0, false},
                              twice = {plan_connect, plan_close, 1, false};

static void set_up(void)
{
    ck_assert_int_eq(sem_init(&go, 0, 0), 0);
    ck_assert_int_eq(sem_init(&begun, 0, 0), 0);
    ck_assert_int_eq(sem_init(&closed, 0, 0), 0);
    ck_assert_int_eq(loop_init(&loop, NULL, 0), 0);
}

static void tear_down(void)
{
    loop_free(&loop);
}

static void expect_closed(const void *connection)
{
    ck_assert_int_eq(sem_wait(&closed), 0);
    ck_assert_ptr_eq(closed_connection, connection);
}

static void take_result(void *owner, void *connection, const char *problem)
{
    ck_assert_ptr_eq(owner, &got);
    got = connection;
    snprintf(reason, sizeof reason, "%s", problem);
    loop.stop = true;
}

static struct dial *dial(const struct dial_kind *kind, struct plan plan)
{
    struct plan *to = malloc(sizeof *to);

    ck_assert_ptr_nonnull(to);
    *to = plan;
    struct dial *one = dial_new(&loop, kind, to, take_result, &got);

    ck_assert_ptr_nonnull(one);
    return one;
}

static void run_until_result(void)
{
    loop.stop = false;
    got = NULL;
    while (!loop.stop)
        loop_run(&loop);
}

TEST(a_new_connection_is_handed_over)
{
    dial(&once, (struct plan){.fails = {false}});
    run_until_result();
    ck_assert_ptr_eq(got, &connections[0]);
}

TEST(a_failed_connection_has_a_reason)
{
    dial(&once, (struct plan){.fails = {true}});
    run_until_result();
    ck_assert_ptr_null(got);
    ck_assert_str_eq(reason, "attempt 1 failed");
}

TEST(cancelling_a_dial_does_not_wait)
{
    struct dial *one = dial(&once, (struct plan){.waits = {true}});

    ck_assert_int_eq(sem_wait(&begun), 0);
    dial_free(one);
    sem_post(&go);
    expect_closed(&connections[0]);
}

TEST(the_first_of_two_attempts_to_connect_counts)
{
    dial(&twice, (struct plan){.waits = {true}});
    ck_assert_int_eq(sem_wait(&begun), 0); /* later, the first attempt would not be made */
    run_until_result();
    ck_assert_ptr_eq(got, &connections[1]);
    sem_post(&go);
    expect_closed(&connections[0]);
}

/* The second attempt has failed when the first one ends. */
TEST_EACH(a_failed_attempt_waits_for_the_other_one, 2)
{
    dial(&twice, (struct plan){.waits = {true, true}, .fails = {_i, true}});
    for (int i = 0; i < ATTEMPTS; i++) {
        while (sem_trywait(&begun))
            timers_run(&loop.timers, INT64_MAX);
    }
    sem_post(&go);
    sem_post(&go);
    run_until_result();
    ck_assert_ptr_eq(got, _i ? NULL : &connections[0]);
}

/* A silent name server blocks first attempts for a long time. The others wait for a thread, and
 * second attempts have their own. */
TEST(threads_that_connect_are_limited)
{
    struct dial *list[MANY];

    for (int i = 0; i < MANY; i++)
        list[i] = dial(&once, (struct plan){.waits = {true}});
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(sem_wait(&begun), 0);
    dial(&twice, (struct plan){.waits = {true}});
    run_until_result();
    ck_assert_ptr_eq(got, &connections[1]);
    ck_assert_int_eq(sem_wait(&begun), 0); /* the second attempt begins */
    ck_assert_int_eq(sem_trywait(&begun), -1);
    for (int i = 0; i < MANY; i++)
        dial_free(list[i]);
    for (int i = 0; i < THREADS; i++)
        sem_post(&go);
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(sem_wait(&closed), 0);
}

SUITE(dial, .timeout_s = 30, .before_each = set_up, .after_each = tear_down)
