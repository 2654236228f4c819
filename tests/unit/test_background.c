/* Work in the background leaves a processor to those who answer, while they are late. */
#include <check.h>
#include <pthread.h>
#include <unistd.h>

#include "core/base/background.h"
#include "core/base/text.h"
#include "suites.h"

enum { PATIENCE_MS = 250, SOON_MS = 200 };

/* As many as may work at the same time. */
static long all(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);

    return processors > 2 ? processors - 1 : 1;
}

static void begin_all(void)
{
    for (long i = 0; i < all(); i++)
        background_begin();
}

static void end_all(void)
{
    for (long i = 0; i < all(); i++)
        background_end();
}

static int64_t waited_ms(void)
{
    int64_t start_ms = clock_mono_ms();

    background_begin();
    background_end();
    return clock_mono_ms() - start_ms;
}

static void *wait_too(void *arg)
{
    *(int64_t *)arg = waited_ms();
    return NULL;
}

START_TEST(all_work_while_nobody_is_late)
{
    background_give_way(clock_mono_ms() - 1);
    ck_assert(!background_gives_way());
    begin_all();
    ck_assert_int_lt(waited_ms(), SOON_MS);
    end_all();
}

START_TEST(one_more_waits_while_answers_are_late)
{
    background_give_way(clock_mono_ms() + 60000);
    ck_assert(background_gives_way());
    ck_assert_int_lt(waited_ms(), SOON_MS);
    begin_all();
    ck_assert_int_ge(waited_ms(), PATIENCE_MS); /* nobody ends */
    end_all();
}

START_TEST(one_goes_on_when_another_has_ended)
{
    pthread_t thread;
    int64_t waited = -1;

    background_give_way(clock_mono_ms() + 60000);
    begin_all();
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_too, &waited), 0);
    background_end();
    pthread_join(thread, NULL);
    ck_assert_int_ge(waited, 0);
    ck_assert_int_lt(waited, SOON_MS);
    background_begin();
    end_all();
}

Suite *background_suite(void)
{
    Suite *suite = suite_create("background");
    TCase *tests = tcase_create("background");

    tcase_add_test(tests, all_work_while_nobody_is_late);
    tcase_add_test(tests, one_more_waits_while_answers_are_late);
    tcase_add_test(tests, one_goes_on_when_another_has_ended);
    suite_add_tcase(suite, tests);
    return suite;
}
