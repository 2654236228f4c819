/* Connecting on a helper thread: which of two attempts counts, and an owner that does not wait. */
#include <check.h>
#include <poll.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/store/dial.h"
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

START_TEST(a_connection_is_handed_over)
{
    char problem[DIAL_PROBLEM];
    struct dial *one = dial((struct plan){.fails = {false}});

    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_eq(result_of(one, problem), &connections[0]);
}
END_TEST

START_TEST(a_failure_has_its_reason)
{
    char problem[DIAL_PROBLEM];
    struct dial *one = dial((struct plan){.fails = {true}});

    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_null(result_of(one, problem));
    ck_assert_str_eq(problem, "the first failed");
}
END_TEST

START_TEST(who_gives_up_does_not_wait)
{
    struct dial *one = dial((struct plan){.waits = {true}});

    ck_assert_ptr_nonnull(one);
    dial_free(one);
    sem_post(&go);
    ck_assert_int_eq(sem_wait(&closed), 0);
    ck_assert_ptr_eq(closed_connection, &connections[0]);
}
END_TEST

START_TEST(the_first_connection_counts)
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
END_TEST

START_TEST(a_failure_waits_for_the_other_attempt)
{
    char problem[DIAL_PROBLEM];
    struct dial *one = dial((struct plan){.waits = {true}, .fails = {_i, true}});

    ck_assert_ptr_nonnull(one);
    dial_again(one);
    sem_post(&go);
    ck_assert_ptr_eq(result_of(one, problem), _i ? NULL : &connections[0]);
}
END_TEST

/* A name server may be silent for a long time. */
START_TEST(threads_that_wait_are_limited)
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
END_TEST

Suite *dial_suite(void)
{
    Suite *suite = suite_create("dial");
    TCase *cases = tcase_create("dial");

    tcase_set_timeout(cases, 30);
    tcase_add_checked_fixture(cases, set_up, NULL);
    tcase_add_test(cases, a_connection_is_handed_over);
    tcase_add_test(cases, a_failure_has_its_reason);
    tcase_add_test(cases, who_gives_up_does_not_wait);
    tcase_add_test(cases, the_first_connection_counts);
    tcase_add_loop_test(cases, a_failure_waits_for_the_other_attempt, 0, 2);
    tcase_add_test(cases, threads_that_wait_are_limited);
    suite_add_tcase(suite, cases);
    return suite;
}
