/*
 * Decides when a delivery is attempted again or abandoned. The functions have no side effects.
 *
 * The delays [1, 4] mean three attempts: the second starts 1 s after the first has failed, the
 * third 4 s after the second. Retry-After in the response may lengthen a delay, but never shortens
 * it. A response 410 ends the attempts.
 *
 * The delays of webhook.retry_delays are exact, and Retry-After lengthens them to at most 60 s.
 * With a webhook's own policy, Retry-After may be up to 24 h, and delays of 60 s or more have
 * jitter, so that not all deliveries of an outage are attempted again at the same time.
 */
#ifndef WEBHOOK_RETRY_TIME_H
#define WEBHOOK_RETRY_TIME_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RETRY_DELAYS_MAX 16
#define RETRY_AFTER_MAX_S 86400

struct retry_delays {
    int64_t delays_ms[RETRY_DELAYS_MAX];
    size_t count;
    bool own; /* of a webhook's policy, not of webhook.retry_delays */
};

enum retry_verdict { RETRY_DELIVERED, RETRY_LATER, RETRY_ABANDON };

/*
 * Returns what to do after an attempt. `attempt` counts from 1. `status` is 0 if there was no
 * complete response. `retry_after_s` is 0 or less if the response had no Retry-After. `random` is
 * any number, which sets the jitter. With RETRY_LATER, *delay_ms is set to the delay from now.
 */
enum retry_verdict retry_time_next(const struct retry_delays *delays, int attempt, int status,
                                   int64_t retry_after_s, uint32_t random, int64_t *delay_ms);

/* Sets the delays. Returns 0, or -1 if the valid retryPolicy `policy` is "default" or null. */
int retry_time_policy(const json_t *policy, struct retry_delays *delays);

/*
 * Parses Retry-After (seconds, or an HTTP date) without blanks around it. `now_s` is seconds since
 * 1970. Returns seconds from now, or 0 if the value is invalid or in the past.
 */
int64_t retry_time_after(const char *value, int64_t now_s);

#endif
