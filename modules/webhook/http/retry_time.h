/*
 * When a delivery is attempted again, and when it is abandoned. Pure.
 *
 * retry_delays [1, 4] means three attempts, with gaps of 1 s and 4 s after a failure. Retry-After
 * in the response may lengthen a gap up to 60 s, but never shortens it. A 410 ends the attempts at
 * once. There is no jitter: the order of deliveries and exact gaps are more important here, and
 * each webhook has a separate budget.
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
 * Returns what to do after an attempt. `attempt` counts from 1, `status` is the response's (0: no
 * complete response), `retry_after_s` is from the response (0 or less: none). With RETRY_LATER
 * *delay_ms is the gap from now.
 */
enum retry_verdict retry_time_next(const struct retry_delays *delays, int attempt, int status,
                                   int64_t retry_after_s, int64_t *delay_ms);

/*
 * Parses Retry-After without blanks around it: seconds, or an HTTP date. `now_s` is seconds since
 * 1970. Returns seconds from now, or 0.
 */
int64_t retry_time_after(const char *value, int64_t now_s);

#endif
