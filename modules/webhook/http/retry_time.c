#include "modules/webhook/http/retry_time.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

enum retry_verdict retry_time_next(const struct retry_delays *delays, int attempt, int status,
                                   int64_t retry_after_s, int64_t *delay_ms)
{
    if (status >= 200 && status <= 299)
        return RETRY_DELIVERED;
    if (status == 410 || attempt < 1 || (size_t)attempt > delays->count)
        return RETRY_ABANDON;
    if (retry_after_s > RETRY_AFTER_MAX_S)
        retry_after_s = RETRY_AFTER_MAX_S;
    *delay_ms = delays->delays_ms[attempt - 1];
    if (*delay_ms < retry_after_s * 1000)
        *delay_ms = retry_after_s * 1000;
    return RETRY_LATER;
}

int64_t retry_time_after(const char *value, int64_t now_s)
{
    size_t length = strlen(value);

    if (length && strspn(value, "0123456789") == length)
        return length > 9 ? RETRY_AFTER_MAX_S : strtoll(value, NULL, 10);
    int64_t date = curl_getdate(value, NULL);

    return date > now_s ? date - now_s : 0;
}
