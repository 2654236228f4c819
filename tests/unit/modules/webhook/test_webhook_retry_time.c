/* The times of retries. */
#include "modules/webhook/http/retry_time.h"
#include "suite.h"

static const struct retry_delays usual = {.delays_ms = {1000, 4000}, .count = 2};
static uint32_t random_number;

static int64_t gap_of(const struct retry_delays *delays, int attempt, int status,
                      int64_t retry_after_s)
{
    int64_t delay = -1;
    enum retry_verdict verdict =
        retry_time_next(delays, attempt, status, retry_after_s, random_number, &delay);

    return verdict == RETRY_LATER ? delay : -(int64_t)verdict - 1;
}

static int64_t gap(int attempt, int status, int64_t retry_after_s)
{
    return gap_of(&usual, attempt, status, retry_after_s);
}

/* Reads a policy, which is valid JSON. */
static struct retry_delays policy_of(const char *json)
{
    json_t *policy = json_loads(json, JSON_DECODE_ANY, NULL);
    struct retry_delays delays;
    int failed = retry_time_policy(policy, &delays);

    ck_assert_ptr_nonnull(policy);
    json_decref(policy);
    ck_assert_int_eq(failed, delays.count ? 0 : -1);
    return delays;
}

#define DELIVERED (-(int64_t)RETRY_DELIVERED - 1)
#define ABANDON (-(int64_t)RETRY_ABANDON - 1)

TEST(attempts_are_retried_after_1_and_4_seconds_and_then_abandoned)
{
    ck_assert_int_eq(gap(1, 500, 0), 1000);
    ck_assert_int_eq(gap(2, 0, 0), 4000);
    ck_assert_int_eq(gap(3, 503, 0), ABANDON);
    ck_assert_int_eq(gap(4, 503, 0), ABANDON);
}

TEST(only_a_2xx_response_counts_as_delivered)
{
    for (int status = 100; status < 600; status++)
        ck_assert_int_eq(gap(3, status, 0), status / 100 == 2 ? DELIVERED : ABANDON);
}

TEST(a_410_response_ends_the_retries)
{
    ck_assert_int_eq(gap(1, 410, 30), ABANDON);
}

TEST(retry_after_only_lengthens_the_delay_up_to_a_minute)
{
    ck_assert_int_eq(gap(1, 429, 3), 3000);
    ck_assert_int_eq(gap(2, 429, 3), 4000);
    ck_assert_int_eq(gap(1, 503, 86400), 60000);
    ck_assert_int_eq(gap(1, 503, -5), 1000);
    ck_assert_int_eq(gap(3, 503, 5), ABANDON);
}

TEST(the_standard_policy_takes_27_hours_and_35_minutes)
{
    struct retry_delays standard = policy_of("\"standard\"");
    int64_t sum_ms = 0;

    for (size_t i = 0; i < standard.count; i++)
        sum_ms += standard.delays_ms[i];
    ck_assert_uint_eq(standard.count, 7);
    ck_assert_int_eq(sum_ms / 60000, 27 * 60 + 35);
    ck_assert_int_eq(gap_of(&standard, 1, 500, 0), 5000);
    ck_assert_int_eq(gap_of(&standard, 8, 500, 0), ABANDON);
    ck_assert_uint_eq(policy_of("\"default\"").count, 0);
    ck_assert_uint_eq(policy_of("null").count, 0);
}

TEST(delays_of_a_policy_have_ten_percent_jitter_from_a_minute_on)
{
    struct retry_delays own = policy_of("{\"delays\":[59,60,86400]}");
    const struct retry_delays exact = {.delays_ms = {3600000}, .count = 1};
    int64_t least = INT64_MAX, most = 0;

    for (unsigned i = 0; i < 100000; i++) {
        random_number = i * 2654435761U;
        int64_t delay = gap_of(&own, 2, 500, 0);

        least = delay < least ? delay : least;
        most = delay > most ? delay : most;
        ck_assert_int_eq(gap_of(&own, 1, 500, 0), 59000);
        ck_assert_int_eq(gap_of(&exact, 1, 500, 0), 3600000);
    }
    ck_assert_int_ge(least, 54000);
    ck_assert_int_lt(least, 54100);
    ck_assert_int_le(most, 66000);
    ck_assert_int_gt(most, 65900);
}

TEST(retry_after_lengthens_delays_of_a_policy_to_at_most_a_day)
{
    struct retry_delays own = policy_of("{\"delays\":[1]}");

    ck_assert_int_eq(gap_of(&own, 1, 503, 3600), 3600000);
    ck_assert_int_eq(gap_of(&own, 1, 503, 86401), 86400000);
    ck_assert_int_eq(gap_of(&own, 1, 503, 0), 1000);
}

static int64_t read_text(const char *text)
{
    return retry_time_after(text, 784111777); /* 1994-11-06T08:49:37Z */
}

TEST(retry_after_is_seconds_or_a_date)
{
    ck_assert_int_eq(read_text("120"), 120);
    ck_assert_int_eq(read_text("999999999"), 999999999);
    ck_assert_int_eq(read_text("1000000000"), 86400);
    ck_assert_int_eq(read_text("Sun, 06 Nov 1994 08:50:07 GMT"), 30);
    ck_assert_int_eq(read_text("Sun, 06 Nov 1994 08:49:07 GMT"), 0);
    ck_assert_int_eq(read_text("-3"), 0);
    ck_assert_int_eq(read_text("soon"), 0);
    ck_assert_int_eq(read_text(""), 0);
}

SUITE(webhook_retry_time)
