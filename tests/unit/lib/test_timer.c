#include "core/lib/loop.h"
#include "suite.h"

enum { MANY = 1000 };

static struct timers timers;
static struct timer all[MANY];
static int64_t last_ms;
static int fired;

static void fire(struct timer *timer)
{
    ck_assert(!timer->set);
    ck_assert_int_ge(timer->at_ms, last_ms);
    last_ms = timer->at_ms;
    fired++;
}

static void fill(void)
{
    last_ms = fired = 0;
    for (int i = 0; i < MANY; i++) {
        all[i] = (struct timer){.fire = fire};
        timer_set(&timers, &all[i], rand() % MANY);
    }
}

TEST(timers_fire_in_the_order_of_their_times)
{
    fill();
    ck_assert_int_eq(timers_run(&timers, MANY), -1);
    ck_assert_int_eq(fired, MANY);
}

TEST(moved_timers_fire_once_and_cleared_ones_never)
{
    fill();
    for (int i = 0; i < MANY; i += 2)
        timer_set(&timers, &all[i], MANY + rand() % MANY);
    for (int i = 1; i < MANY; i += 4)
        timer_clear(&timers, &all[i]);
    ck_assert_int_ge(timers_run(&timers, MANY - 1), 1);
    ck_assert_int_eq(fired, MANY / 4);
    ck_assert_int_eq(timers_run(&timers, 2 * (int64_t)MANY), -1);
    ck_assert_int_eq(fired, MANY / 4 + MANY / 2);
}

SUITE(timer)
