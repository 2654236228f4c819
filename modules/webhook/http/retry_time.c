#include "modules/webhook/http/retry_time.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_AFTER_MAX_S = 60, /* maximum Retry-After if the webhook has no policy */
    JITTER_FROM_MS = 60000,
    JITTER_PERCENT = 10
};

enum retry_verdict retry_time_next(const struct retry_delays *delays, int attempt, int status,
                                   int64_t retry_after_s, uint32_t random, int64_t *delay_ms)
{
    int64_t after_max_s = delays->own ? RETRY_AFTER_MAX_S : DEFAULT_AFTER_MAX_S;

    if (status >= 200 && status <= 299)
        return RETRY_DELIVERED;
    if (status == 410 || attempt < 1 || (size_t)attempt > delays->count)
        return RETRY_ABANDON;
    if (retry_after_s > after_max_s)
        retry_after_s = after_max_s;
    *delay_ms = delays->delays_ms[attempt - 1];
    if (delays->own && *delay_ms >= JITTER_FROM_MS) {
        int64_t most_ms = *delay_ms * JITTER_PERCENT / 100;

        *delay_ms += random % (2 * most_ms + 1) - most_ms;
    }
    if (*delay_ms < retry_after_s * 1000)
        *delay_ms = retry_after_s * 1000;
    return RETRY_LATER;
}

int retry_time_policy(const json_t *policy, struct retry_delays *delays)
{
    static const int64_t standard_s[] = {5, 300, 1800, 7200, 18000, 36000, 36000};
    const json_t *list = json_object_get(policy, "delays");
    const char *name = json_string_value(policy);
    bool standard = name && !strcmp(name, "standard");
    size_t count = standard ? sizeof(standard_s) / sizeof(standard_s[0]) : json_array_size(list);

    *delays = (struct retry_delays){.own = true,
                                    .count = count < RETRY_DELAYS_MAX ? count : RETRY_DELAYS_MAX};
    for (size_t i = 0; i < delays->count; i++)
        delays->delays_ms[i] =
            1000 * (standard ? standard_s[i] : json_integer_value(json_array_get(list, i)));
    return delays->count ? 0 : -1;
}

int64_t retry_time_after(const char *value, int64_t now_s)
{
    size_t length = strlen(value);

    if (length && strspn(value, "0123456789") == length)
        return length > 9 ? RETRY_AFTER_MAX_S : strtoll(value, NULL, 10);
    int64_t date = curl_getdate(value, NULL);

    return date > now_s ? date - now_s : 0;
}
