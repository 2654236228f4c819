#include "core/postgres/pg_pace.h"

enum {
    WINDOW_MS = 30000, /* what is quick is learned anew */
    STEP_MS = 1000,    /* without a late answer, until one more is allowed */
    PATIENCE_MS = 100, /* for a long statement that is slow */
    LATE_TIMES = 3,    /* an answer is late that takes so many times the quickest, */
    LATE_US = 2000     /* and so much more */
};

void pg_pace_init(struct pg_pace *pace, unsigned most)
{
    *pace = (struct pg_pace){.most = most,
                             .allowed = most,
                             .least_us = {INT64_MAX, INT64_MAX},
                             .begun_ms = INT64_MIN / 2};
    pace->answered_ms = pace->begun_ms;
}

/* The quickest answer of late, this one with them. */
static int64_t quickest(struct pg_pace *pace, int64_t now_ms, int64_t took_us)
{
    if (now_ms - pace->window_ms >= WINDOW_MS) {
        pace->window_ms = now_ms;
        pace->least_us[1] = pace->least_us[0];
        pace->least_us[0] = INT64_MAX;
    }
    if (took_us < pace->least_us[0])
        pace->least_us[0] = took_us;
    return pace->least_us[0] < pace->least_us[1] ? pace->least_us[0] : pace->least_us[1];
}

void pg_pace_answered(struct pg_pace *pace, int64_t now_ms, int64_t took_us)
{
    int64_t least_us = quickest(pace, now_ms, took_us);

    pace->answered_ms = now_ms;
    if (took_us > LATE_TIMES * least_us + LATE_US)
        pace->allowed = 1;
    else if (now_ms - pace->changed_ms < STEP_MS)
        return;
    else if (pace->allowed < pace->most)
        pace->allowed++;
    pace->changed_ms = now_ms;
}

bool pg_pace_may_begin(const struct pg_pace *pace, int64_t now_ms, size_t running)
{
    if (running < pace->allowed || now_ms - pace->answered_ms >= STEP_MS)
        return true;
    return now_ms - pace->begun_ms >= PATIENCE_MS;
}

bool pg_pace_is_late(const struct pg_pace *pace, int64_t now_ms)
{
    return pace->allowed < pace->most && now_ms - pace->answered_ms < STEP_MS;
}

void pg_pace_begun(struct pg_pace *pace, int64_t now_ms)
{
    pace->begun_ms = now_ms;
}
