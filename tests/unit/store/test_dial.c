/* Connecting on a helper thread: which of two attempts counts, and an owner that does not wait. */
#include <check.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/store/dial.h"
#include "suite.h"
#include "unit_suites.h"

enum { MANY = 300, PATIENCE_MS = 20000 };

/* The behavior of the two attempts. */
struct plan {
    bool waits[2]; /* the attempt waits for `go` */
    bool fails[2];
};

static sem_t go, closed;
static char connections[2];
static void *closed_connection;

static void *plan_connect(const void *to, bool again, char problem[DIAL_PROBLEM])
{
    const struct plan *plan = to;

    if (plan->waits[again])
        while (sem_wait(&go))
            ;
    snprintf(problem, DIAL_PROBLEM, "%s", again ? "the second failed" : "the first failed");
    return plan->fails[again] ? NULL : &connections[again];
}

static void plan_close(void *connection)
{
    closed_connection = connection;
    sem_post(&closed);
}

static const struct dial_kind kind = {plan_connect, plan_close};

static void set_up(void)
{
    ck_assert_int_eq(sem_init(&go, 0, 0), 0);
    ck_assert_int_eq(sem_init(&closed, 0, 0), 0);
}

static struct dial *dial(struct plan plan)
{
    struct plan *to = malloc(sizeof *to);

    ck_assert_ptr_nonnull(to);
    *to = plan;
    return dial_new(&kind, to);
}

static void *result_of(struct dial *dial, char problem[DIAL_PROBLEM])
{
    struct pollfd ready = {dial_fd(dial), POLLIN, 0};

    ck_assert_int_eq(poll(&ready, 1, PATIENCE_MS), 1);
    return dial_end(dial, problem);
}

TEST(a_connection_is_handed_over)
{
    char problem[DIAL_PROBLEM];
    struct dial *one = dial((struct plan){.fails = {false}});

    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_eq(result_of(one, problem), &connections[0]);
}

TEST(a_failure_has_its_reason)
{
    char problem[DIAL_PROBLEM];
    struct dial *one = dial((struct plan){.fails = {true}});

    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_null(result_of(one, problem));
    ck_assert_str_eq(problem, "the first failed");
}

TEST(who_gives_up_does_not_wait)
{
    struct dial *one = dial((struct plan){.waits = {true}});

    ck_assert_ptr_nonnull(one);
    dial_free(one);
    sem_post(&go);
    ck_assert_int_eq(sem_wait(&closed), 0);
    ck_assert_ptr_eq(closed_connection, &connections[0]);
}

TEST(the_first_connection_counts)
{
    char problem[DIAL_PROBLEM];
    struct dial *one = dial((struct plan){.waits = {true}});

    ck_assert_ptr_nonnull(one);
    dial_again(one);
    ck_assert_ptr_eq(result_of(one, problem), &connections[1]);
    sem_post(&go);
    ck_assert_int_eq(sem_wait(&closed), 0);
    ck_assert_ptr_eq(closed_connection, &connections[0]);
}

TEST_EACH(a_failure_waits_for_the_other_attempt, 2)
{
    char problem[DIAL_PROBLEM];
    struct dial *one = dial((struct plan){.waits = {true}, .fails = {_i, true}});

    ck_assert_ptr_nonnull(one);
    dial_again(one);
    sem_post(&go);
    ck_assert_ptr_eq(result_of(one, problem), _i ? NULL : &connections[0]);
}

/* A name server may be silent for a long time. */
TEST(threads_that_wait_are_limited)
{
    struct dial *list[MANY];
    int count = 0;

    while (count < MANY && (list[count] = dial((struct plan){.waits = {true}})))
        count++;
    ck_assert_int_ge(count, 100);
    ck_assert_int_lt(count, MANY);
    for (int i = 0; i < count; i++) {
        dial_free(list[i]);
        sem_post(&go);
    }
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(sem_wait(&closed), 0);
}

SUITE(dial, .timeout_s = 30, .before_each = set_up)
