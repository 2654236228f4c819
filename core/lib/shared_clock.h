/*
 * The clock that all hosts of a cluster share: PostgreSQL's. It is used for tokens, times in
 * responses and signatures, so that a host with a wrong clock does no harm. The listener measures
 * it several times a second; requests never query it.
 *
 * It is stored as an offset from the monotonic clock, so that it does not jump when an operator or
 * NTP sets the wall clock. Until the first measurement it is the host's wall clock.
 *
 * There is one per process. Any thread reads it, one thread measures.
 */
#ifndef CORE_SHARED_CLOCK_H
#define CORE_SHARED_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SHARED_CLOCK_WARN_MS = 1000,  /* from this offset on a warning is logged */
    SHARED_CLOCK_MOST_MS = 30000, /* beyond this offset the host is not ready */
};

/* Milliseconds since 1970-01-01T00:00:00Z. */
int64_t shared_clock_ms(void);

/* Whether it has been measured. */
bool shared_clock_known(void);

/*
 * Milliseconds by which the shared clock is ahead of this host's wall clock; 0 before the first
 * measurement.
 */
int64_t shared_clock_offset_ms(void);

/*
 * Records that the shared clock was `theirs_us` (microseconds since 1970) at some moment between
 * `sent_us` and `received_us` of clock_mono_us(). The clock is adjusted only if it contradicts the
 * measurement, and only as far as needed, so slow responses do not make it inaccurate.
 */
void shared_clock_measured(int64_t theirs_us, int64_t sent_us, int64_t received_us);

#endif
