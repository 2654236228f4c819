#include "core/lib/shared_clock.h"

#include <stdatomic.h>

#include "core/lib/text.h"

/* The shared clock minus the monotonic one, in microseconds; 0: not measured yet. */
static atomic_int_least64_t distance_us;

int64_t shared_clock_ms(void)
{
    int64_t distance = atomic_load_explicit(&distance_us, memory_order_relaxed);

    return distance ? (clock_mono_us() + distance) / 1000 : clock_wall_ms();
}

bool shared_clock_known(void)
{
    return atomic_load_explicit(&distance_us, memory_order_relaxed) != 0;
}

int64_t shared_clock_offset_ms(void)
{
    return shared_clock_ms() - clock_wall_ms();
}

void shared_clock_measured(int64_t theirs_us, int64_t sent_us, int64_t received_us)
{
    int64_t least = theirs_us - received_us, most = theirs_us - sent_us;
    int64_t distance = atomic_load_explicit(&distance_us, memory_order_relaxed);

    if (!distance)
        distance = clock_wall_ms() * 1000 - clock_mono_us();
    if (distance < least)
        distance = least;
    if (distance > most)
        distance = most;
    atomic_store_explicit(&distance_us, distance, memory_order_relaxed);
}
