/*
 * When a delivery is attempted again, and when it is abandoned. The functions have no side effects.
 *
 * retry_delays [1, 4] means three attempts: the second starts 1 s after the first has failed, the
 * third 4 s after the second. Retry-After in the response may lengthen a gap up to 60 s, but never
 * shortens it. A response 410 ends the attempts. There is no jitter, because the order of
 * deliveries and exact gaps are more important here, and each webhook has a separate budget.
 */
#ifndef WEBHOOK_RETRY_TIME_H
#define WEBHOOK_RETRY_TIME_H

#include <stddef.h>
#include <stdint.h>

#define RETRY_DELAYS_MAX 16
#define RETRY_AFTER_MAX_S 60

struct retry_delays {
    int64_t delays_ms[RETRY_DELAYS_MAX];
    size_t count;
};

enum retry_verdict { RETRY_DELIVERED, RETRY_LATER, RETRY_ABANDON };

/*
 * Returns what to do after an attempt. `attempt` counts from 1. `status` and `retry_after_s` are
 * from the response (0: no complete response; 0 or less: no Retry-After). With RETRY_LATER,
 * *delay_ms is set to the gap from now.
 */
enum retry_verdict retry_time_next(const struct retry_delays *delays, int attempt, int status,
                                   int64_t retry_after_s, int64_t *delay_ms);

/*
 * Parses Retry-After (seconds, or an HTTP date) without blanks around it. `now_s` is seconds since
 * 1970. Returns seconds from now, or 0.
 */
int64_t retry_time_after(const char *value, int64_t now_s);

#endif
