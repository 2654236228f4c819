#include "core/lib/loop.h"
#include "suite.h"

enum { MANY = 1000 };

static struct bb_heap timers;
static struct timer all[MANY];
static int64_t last_ms;
static int fired;

static void fire(struct timer *timer)
{
    ck_assert(!timer->node.set);
    ck_assert_int_ge(timer->node.at_ms, last_ms);
    last_ms = timer->node.at_ms;
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
    ck_assert_ptr_nonnull(bb_heap_first(&timers)); /* puts timers below others */
    for (int i = 1; i < MANY; i += 4)
        timer_clear(&timers, &all[i]);
    timer_clear(&timers, &all[1]); /* removing it twice does nothing */
    ck_assert_int_ge(timers_run(&timers, MANY - 1), 1);
    ck_assert_int_eq(fired, MANY / 4);
    ck_assert_int_eq(timers_run(&timers, 2 * (int64_t)MANY), -1);
    ck_assert_int_eq(fired, MANY / 4 + MANY / 2);
}

SUITE(timer)
