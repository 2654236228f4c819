/* The explanation of a device's reading at a moment, and the coverage of a period. */
#include <string.h>

#include "certificates.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    certificates_open("certificate_explain");
}

static struct answer *explain(const struct person *by, const char *device, int64_t at)
{
    return http(host, "GET", text(LOG "/explain?deviceId=%s&at=%s", device, time_text(at)),
                by->token, NULL);
}

static struct answer *expect(const struct person *by, const char *device, int64_t at,
                             const char *reason)
{
    struct answer *answer = ck_status(explain(by, device, at), 200);

    ck_assert_str_eq(answer_text(answer, "reason"), reason);
    ck_assert_uint_gt(strlen(answer_text(answer, "explanation")), 20);
    return answer;
}

static const json_t *covering(const struct answer *answer)
{
    size_t i;
    const json_t *read;

    json_array_foreach(json_object_get(answer->json, "readings"), i, read)
    {
        if (json_is_true(json_object_get(read, "covers")))
            return read;
    }
    ck_abort_msg("no reading covers the moment: %s", answer->body);
    return NULL;
}

static void post(const struct person *by, const char *key, const char *type, int64_t start,
                 int64_t end, double wh)
{
    ck_status(meter_read(host, by, key, type, start, end, wh), 201);
}

static void post_readings(const struct person *m, int64_t start)
{
    post(m, "ea", "Delta", start - DAY_MS, start + HOUR_MS, 900);
    post(m, "ea", "Delta", start + HOUR_MS, start + DAY_MS, 5300);
    post(m, "ea", "Delta", start + DAY_MS, start + 2 * DAY_MS + 2 * HOUR_MS, 900);
    post(m, "ea", "Delta", start + 3 * DAY_MS, start + 4 * DAY_MS, 0);
    post(m, "ea", "Delta", start + 5 * DAY_MS, start + 6 * DAY_MS, 600);
    post(m, "ea", "History", start - 5 * DAY_MS, start - 4 * DAY_MS, 999);
    post(m, "ea", "History", start - 4 * DAY_MS, start - 3 * DAY_MS, 1000);
    post(m, "en", "Delta", start, start + DAY_MS, 5000);
    post(m, "er", "Delta", start, start + DAY_MS, 900000);
}

/* The reasons that say everything by their names. */
static void expect_reasons(const struct person *m, int64_t start, int64_t now)
{
    int64_t half = DAY_MS / 2;

    expect(m, "ea", start - half, "beforeGroup");
    expect(m, "ea", start + DAY_MS + half, "longerThanCycle");
    expect(m, "ea", start + 3 * DAY_MS + half, "belowThreshold");
    expect(m, "ea", start - 4 * DAY_MS - half, "belowThreshold");
    expect(m, "ea", start + 4 * DAY_MS + half, "noReading");
    expect(m, "ea", now - 30000, "cycleNotEnded");
    expect(m, "en", start + half, "inNoGroup");
    expect(m, "er", start + half, "aboveCeiling");
}

TEST(each_reason_is_found)
{
    struct person *m = certificate_person("explain.all"), *b = certificate_person("explain.other");
    int64_t start = days_ago(10), half = DAY_MS / 2, device, rated;

    device = meter_make(host, m, "ea", 10, days_ago(100));
    rated = meter_make(host, m, "er", 1000, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", start, &device, 1);

    certificate_group_make(m, "daily", start, &rated, 1);
    meter_make(host, m, "en", 10, days_ago(100));
    post_readings(m, start);
    ask(m, 200, NULL, "PATCH /api/device/er {'capacity':100}");
    int64_t now = sql_number(db, "SELECT (extract(epoch FROM date_trunc('minute', now()))"
                                 " * 1000)::bigint");

    certificates_issue(db, host);
    post(m, "ea", "Delta", now - 60000, now, 10);
    ck_status(meter_read(host, m, "ea", "Delta", start + 7 * DAY_MS, start + 8 * DAY_MS, 1e9), 409);
    int64_t id = int_in(item_of(ck_status(meter_read(host, m, "ea", "Delta", start + 8 * DAY_MS,
                                                     start + 9 * DAY_MS, 10),
                                          201),
                                "reads", 0),
                        "id");

    ask(m, 200, NULL, "DELETE /api/meter-reads/new/ea/%jd {'reason':'meter swapped'}", id);
    expect_reasons(m, start, now);

    struct answer *carried = expect(m, "ea", start + 5 * DAY_MS + half, "carried");

    ck_assert_str_eq(text_in(item_of(carried, "readings", 0), "reason"), "carried");
    struct answer *certified = expect(m, text("%jd", (intmax_t)device), start + half, "certified");
    const json_t *entry = json_array_get(json_object_get(covering(certified), "entries"), 0);
    struct answer *log =
        log_of(m, text("?groupId=%jd&status=Succeeded&minWatthour=1", (intmax_t)group));

    ck_assert_str_eq(text_in(entry, "certificateTransactionUID"),
                     text_in(item_of(log, NULL, 0), "certificateTransactionUID"));
    ck_assert_int_eq(int_in(json_object_get(certified->json, "group"), "id"), group);
    ck_assert_str_eq(text_in(json_object_get(certified->json, "cycle"), "start"), time_text(start));
    certified = expect(m, "ea", start - 3 * DAY_MS - half, "certified");
    ck_assert_int_eq(int_in(json_array_get(json_object_get(covering(certified), "entries"), 0),
                            "readvalue_watthour"),
                     1000);
    struct answer *refused = expect(m, "ea", start + 7 * DAY_MS + half, "refused");

    ck_assert_ptr_nonnull(strstr(text_in(item_of(refused, "discarded", 0), "problem"), "ceiling"));
    struct answer *voided = expect(m, "ea", start + 8 * DAY_MS + half, "voided");

    ck_assert_str_eq(text_in(item_of(voided, "discarded", 0), "problem"), "meter swapped");
    ck_error(explain(b, "ea", start), 404, "");
    ck_error(explain(b, text("%jd", (intmax_t)device), start), 404, "Device not found");
    ask(m, 400, NULL, "GET " LOG "/explain?deviceId=ea");
    expect(admin, text("%jd", (intmax_t)device), start + half, "certified");
}

static struct answer *coverage(const struct person *by, const char *key, int64_t from, int64_t to)
{
    return http(host, "GET",
                text("/api/device/%s/coverage?from=%s&to=%s", key, time_text(from), time_text(to)),
                by->token, NULL);
}

static int64_t sum_of(const struct answer *answer, const char *reason)
{
    size_t i;
    const json_t *sum;

    json_array_foreach(json_object_get(answer->json, "sums"), i, sum)
    {
        if (!strcmp(text_in(sum, "reason"), reason))
            return int_in(sum, "value");
    }
    return 0;
}

TEST(coverage_lists_gaps_sums_and_readings_that_no_group_certifies)
{
    struct person *m = certificate_person("coverage"), *b = certificate_person("coverage.other");
    int64_t start = days_ago(20), device = meter_make(host, m, "co", 10, days_ago(100));

    certificate_group_make(m, "daily", start, &device, 1);
    post(m, "co", "Delta", start - 2 * DAY_MS, start - DAY_MS, 100);
    post(m, "co", "Delta", start - DAY_MS, start + HOUR_MS, 200);
    post(m, "co", "Delta", start + DAY_MS, start + 2 * DAY_MS, 5300);
    post(m, "co", "Delta", start + 2 * DAY_MS, start + 3 * DAY_MS, 1700);
    post(m, "co", "History", start + 4 * DAY_MS, start + 5 * DAY_MS, 2000);
    certificates_issue(db, host);
    struct answer *answer =
        ck_status(coverage(m, "co", start - 3 * DAY_MS, start + 6 * DAY_MS), 200);
    const json_t *gaps = json_object_get(answer->json, "gaps");
    static const int64_t hours[][2] = {{-72, -48}, {1, 24}, {72, 96}, {120, 144}};

    ck_assert_uint_eq(json_array_size(gaps), 4);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_str_eq(text_in(json_array_get(gaps, i), "startDate"),
                         time_text(start + hours[i][0] * HOUR_MS));
        ck_assert_str_eq(text_in(json_array_get(gaps, i), "endDate"),
                         time_text(start + hours[i][1] * HOUR_MS));
    }
    ck_assert_int_eq(sum_of(answer, "beforeGroup"), 300);
    ck_assert_int_eq(sum_of(answer, "certified"), 5300 + 1700 + 2000);
    ck_assert_uint_eq(json_array_size(json_object_get(answer->json, "notCertified")), 2);
    ck_assert_str_eq(text_in(item_of(answer, "notCertified", 1), "reason"), "beforeGroup");
    answer = ask(m, 200, NULL, "GET /api/device/co/coverage");
    ck_assert_str_eq(answer_text(answer, "from"), time_text(days_ago(100)));
    ck_error(coverage(b, "co", start, start + DAY_MS), 404, "");
    ck_error(coverage(m, "co", start, start), 400, "");
    ck_error(coverage(m, "co", start - 400 * DAY_MS, start), 400, "");
}

STAGE_SUITE(certificate_explain, set_up, 120)
