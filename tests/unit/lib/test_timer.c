#include "core/lib/loop.h"
#include "suite.h"

enum { MANY = 1000 };

static struct timers timers;
static struct timer all[MANY];
static int64_t last_ms;
static int fired;

static void fire(struct timer *timer)
{
    ck_assert_uint_eq(timer->slot, 0);
    ck_assert_int_ge(timer->at_ms, last_ms);
    last_ms = timer->at_ms;
    fired++;
}

static void fill(void)
{
    last_ms = fired = 0;
    for (int i = 0; i < MANY; i++) {
        all[i] = (struct timer){.fire = fire};
        ck_assert_int_eq(timer_try(&timers, &all[i], rand() % MANY), 0);
        ck_assert_uint_ge(timers.room - timers.count, TIMERS_SPARE);
    }
}

static void leave(void)
{
    timers_free(&timers);
    timers = (struct timers){0};
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
        ck_assert_int_eq(timer_set(&timers, &all[i], MANY + rand() % MANY), 0);
    for (int i = 1; i < MANY; i += 4)
        timer_clear(&timers, &all[i]);
    ck_assert_int_ge(timers_run(&timers, MANY - 1), 1);
    ck_assert_int_eq(fired, MANY / 4);
    ck_assert_int_eq(timers_run(&timers, 2 * (int64_t)MANY), -1);
    ck_assert_int_eq(fired, MANY / 4 + MANY / 2);
}

TEST(spare_timers_need_no_memory_with_any_number_of_others)
{
    static struct timer own[TIMERS_SPARE], others[2 * MANY];

    fill();
    for (size_t i = 0; timers.room - timers.count > TIMERS_SPARE; i++)
        ck_assert_int_eq(timer_try(&timers, &others[i], MANY), 0);
    struct timer *const *heap = timers.heap;
    size_t room = timers.room;

    for (int i = 0; i < TIMERS_SPARE; i++)
        ck_assert_int_eq(timer_set(&timers, &own[i], 0), 0);
    ck_assert_ptr_eq(timers.heap, heap);
    ck_assert_uint_eq(timers.room, room);
}

SUITE(timer, .after_each = leave)
