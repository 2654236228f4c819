/* The cluster's clock, as one host keeps it. */
#include "core/lib/text.h"
#include "suite.h"

enum { SECOND = 1000 * 1000, SLACK_MS = 10000 };

/* Returns the time of a clock that is `ahead_us` ahead of this machine's clock. */
static int64_t theirs_us(int64_t ahead_us)
{
    return clock_wall_ms() * 1000 + ahead_us;
}

static void expect_offset(int64_t seconds)
{
    ck_assert_int_le(llabs((long long)(shared_clock_offset_ms() - seconds * 1000)), SLACK_MS);
}

TEST(the_shared_clock_follows_the_database_once_measured)
{
    int64_t now = clock_mono_us();

    ck_assert(!shared_clock_known());
    expect_offset(0);
    shared_clock_measured(theirs_us(600 * (int64_t)SECOND), now, now + 1);
    ck_assert(shared_clock_known());
    expect_offset(600);
    now = clock_mono_us();
    shared_clock_measured(theirs_us(-600 * (int64_t)SECOND), now, now + 1);
    expect_offset(-600);
}

/* The measurement may be from any moment between request and response, so it contradicts
 * nothing. */
TEST(a_slow_measurement_does_not_move_the_shared_clock)
{
    int64_t now = clock_mono_us();

    shared_clock_measured(theirs_us(0), now, now + 1);
    now = clock_mono_us();
    shared_clock_measured(theirs_us(50 * (int64_t)SECOND), now - 100 * (int64_t)SECOND,
                          now + 100 * (int64_t)SECOND);
    expect_offset(0);
    shared_clock_measured(theirs_us(60 * (int64_t)SECOND), now - 20 * (int64_t)SECOND,
                          now + 20 * (int64_t)SECOND);
    expect_offset(40); /* no more than needed */
}

SUITE(shared_clock)
