/*
 * The clock that all hosts of a cluster share: PostgreSQL's. Tokens, times in responses and
 * signatures go by it, so that a host whose own clock is wrong does no harm. The
 * listener measures it several times a second; no request asks for it.
 *
 * It is kept as a distance from the monotonic clock, so that it does not jump when an operator or
 * NTP sets the wall clock. Until the first measurement it is the host's wall clock.
 *
 * There is one in a process. Any thread reads it, one thread measures.
 */
#ifndef CORE_SHARED_CLOCK_H
#define CORE_SHARED_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SHARED_CLOCK_WARN_MS = 1000,  /* from this offset on the operator is warned */
    SHARED_CLOCK_MOST_MS = 30000, /* beyond it the host is not ready */
};

/* Milliseconds since 1970-01-01T00:00:00Z. */
int64_t shared_clock_ms(void);

/* Whether it was ever measured. */
bool shared_clock_known(void);

/* By how much the shared clock is ahead of this host's wall clock; 0 before the first measurement.
 */
int64_t shared_clock_offset_ms(void);

/*
 * Notes that the shared clock showed `theirs_us` (microseconds since 1970) at some moment between
 * `sent_us` and `received_us` of clock_mono_us(). The clock is moved only if it contradicts that,
 * and then no further than needed, so slow answers do not make it inexact.
 */
void shared_clock_measured(int64_t theirs_us, int64_t sent_us, int64_t received_us);

#endif
