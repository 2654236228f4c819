/*
 * Wrong readings: who may void them, the effect on certificates that used them, and corrected
 * readings for the same periods.
 */
#include <string.h>

#include "certificates.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    certificates_open("corrections");
}

static struct answer *void_reading(const struct person *by, const char *key, int64_t id)
{
    return http(host, "DELETE", text("/api/meter-reads/new/%s/%jd", key, (intmax_t)id), by->token,
                json_pack("{ss}", "reason", "meter swapped"));
}

TEST(a_reason_has_no_invisible_characters)
{
    struct person *m = certificate_person("void.reason");

    ask(m, 400, "The request is not valid",
        "DELETE /api/meter-reads/new/x/1 {'reason':'me\u200Bter'}");
}

/* Returns the id of the reading that was just stored. */
static int64_t id_of(struct answer *stored)
{
    return int_in(item_of(ck_status(stored, 201), "reads", 0), "id");
}

TEST(a_reading_that_no_certificate_used_is_voided_and_kept)
{
    struct person *m = certificate_person("void.free"), *b = certificate_person("void.other");
    int64_t ids[3];

    meter_make(host, m, "vf", 10, days_ago(100));
    for (int i = 0; i < 3; i++)
        ids[i] =
            id_of(meter_read(host, m, "vf", "Delta", days_ago(10 - i), days_ago(9 - i), 100 + i));
    ck_error(void_reading(b, "vf", ids[2]), 404, "");
    ask(m, 400, NULL, "DELETE /api/meter-reads/new/vf/%jd {}", ids[2]);
    struct answer *voided = ck_status(void_reading(m, "vf", ids[2]), 200);

    ck_assert_int_eq(answer_int(voided, "id"), ids[2]);
    ck_assert_int_eq(answer_int(voided, "value"), 102);
    ck_error(void_reading(m, "vf", ids[2]), 404, "Reading not found");
    ck_assert_int_eq(meter_total(host, m, "vf"), 201);
    struct answer *latest = http(host, "GET", "/api/meter-reads/latestread/vf", m->token, NULL);

    ck_assert_int_eq(answer_int(latest, "id"), ids[1]);
    struct answer *kept = ck_status(meter_list(host, m, "vf", "?voided=true"), 200);
    const json_t *first = item_of(kept, NULL, 0);

    ck_assert_uint_eq(json_array_size(kept->json), 1);
    ck_assert_str_eq(text_in(first, "reason"), "meter swapped");
    ck_assert_ptr_nonnull(strstr(text_in(first, "voidedBy"), "void.free"));
    ck_assert_int_eq(id_of(meter_read(host, m, "vf", "Delta", days_ago(8), days_ago(7), 7)),
                     ids[2]);
    ck_status(void_reading(m, "vf", ids[0]), 200);
    struct answer *sums =
        http(host, "GET", "/api/meter-reads/new/vf/totals?by=year", m->token, NULL);
    int64_t total = 0;

    for (size_t i = 0; i < json_array_size(ck_status(sums, 200)->json); i++)
        total += int_in(item_of(sums, NULL, i), "value");
    ck_assert_int_eq(total, 101 + 7);
    struct answer *page = ck_status(meter_list(host, m, "vf", "?voided=true&limit=1"), 200);

    ck_assert_int_eq(int_in(item_of(page, NULL, 0), "id"), ids[0]);
    ck_status(void_reading(m, "vf", ids[1]), 200);
    ck_status(void_reading(m, "vf", ids[2]), 200);
    ask(m, 404, NULL, "GET /api/meter-reads/latestread/vf");
    ck_status(meter_read(host, m, "vf", "Delta", days_ago(10), days_ago(9), 5), 201);
}

TEST(an_admin_cancels_a_history_certificate_and_a_corrected_reading_makes_another)
{
    struct person *m = certificate_person("void.history");

    meter_make(host, m, "vh", 10, days_ago(100));
    int64_t id = id_of(meter_read(host, m, "vh", "History", days_ago(10), days_ago(9), 5000));

    certificates_issue(db, host);
    ck_error(void_reading(m, "vh", id), 403, "Forbidden");
    ck_assert_int_eq(meter_total(host, m, "vh"), 5000);
    ck_status(void_reading(admin, "vh", id), 200);
    struct answer *log = log_of(m, "");

    ck_assert_uint_eq(json_array_size(log->json), 1);
    ck_assert_str_eq(text_in(item_of(log, NULL, 0), "status"), "Cancelled");
    ck_assert(json_is_null(json_object_get(item_of(log, NULL, 0), "groupId")));
    certificates_issue(db, host);
    ck_assert_uint_eq(log_entries(m), 1);
    ck_status(meter_read(host, m, "vh", "History", days_ago(10), days_ago(9), 4000), 201);
    certificates_issue(db, host);
    log = log_of(m, "");
    ck_assert_uint_eq(json_array_size(log->json), 2);
    ck_assert_int_eq(int_in(item_of(log, NULL, 0), "readvalue_watthour"), 4000);
    ck_assert_str_eq(text_in(item_of(log, NULL, 0), "status"), "Succeeded");
    ck_assert_str_eq(text_in(item_of(log, NULL, 1), "status"), "Cancelled");
}

static int64_t issued_of(int64_t group)
{
    return sql_number(db, text("SELECT coalesce(sum(issued_wh), 0) FROM certificate"
                               " WHERE group_id = %jd",
                               (intmax_t)group));
}

TEST(energy_that_was_certified_is_taken_back_by_the_next_certificate)
{
    struct person *m = certificate_person("void.delta");
    int64_t start = days_ago(10), device = meter_make(host, m, "vd", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", start, &device, 1);
    int64_t id = id_of(meter_read(host, m, "vd", "Delta", start, start + DAY_MS, 5300));

    certificates_issue(db, host);
    ck_error(void_reading(m, "vd", id), 403, "Forbidden");
    ck_status(void_reading(admin, "vd", id), 200);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 5000);
    ck_assert_int_eq(certificate_group_carried(m, group), -5000);
    ck_assert_uint_eq(json_array_size(log_of(m, "?maxWatthour=-1000&status=Carried")->json), 1);
    certificates_expect_sums(db);
    ck_status(meter_read(host, m, "vd", "Delta", start, start + DAY_MS, 3200), 201);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 5000);
    ck_assert_int_eq(certificate_group_carried(m, group), -1800);
    ck_status(meter_read(host, m, "vd", "Delta", start + DAY_MS, start + 2 * DAY_MS, 4000), 201);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 7000);
    ck_assert_int_eq(certificate_group_carried(m, group), 200);
    certificates_expect_sums(db);
}

TEST(what_came_late_and_is_not_issued_yet_needs_no_admin)
{
    struct person *m = certificate_person("void.late");
    int64_t now = sql_number(db, "SELECT (extract(epoch FROM date_trunc('hour', now()))"
                                 " * 1000)::bigint");
    int64_t device = meter_make(host, m, "vl", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "monthly", days_ago(10), &device, 1);
    int64_t id = id_of(meter_read(host, m, "vl", "Delta", now - HOUR_MS, now, 2000));

    certificates_issue(db, host);
    ck_status(void_reading(m, "vl", id), 200); /* its cycle has not ended */
    ck_assert_int_eq(issued_of(group), 0);
}

/* Whichever comes first, the certified readings are the stored ones. */
TEST(voiding_while_cycles_are_issued_loses_nothing)
{
    struct person *m = certificate_person("void.race");
    int64_t start = days_ago(20), device = meter_make(host, m, "vr", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", start, &device, 1);

    for (int round = 0; round < 12; round++) {
        int64_t at = start + round * DAY_MS;
        int64_t id = id_of(meter_read(host, m, "vr", "Delta", at, at + HOUR_MS, 1700));
        int status;

        ck_status(meter_read(host, m, "vr", "Delta", at + HOUR_MS, at + DAY_MS, 900), 201);
        pid_t job = meter_issue_start(host);

        ck_status(void_reading(admin, "vr", id), 200);
        ck_assert(process_wait(job, 20000, &status));
    }
    certificates_issue(db, host);
    certificates_expect_sums(db);
    ck_assert_int_eq(issued_of(group) + certificate_group_carried(m, group), 12 * 900);
}

STAGE_SUITE(corrections, set_up, 600)
