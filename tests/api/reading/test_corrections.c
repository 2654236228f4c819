/*
 * Wrong readings: who may void them, the effect on certificates that used them, and corrected
 * readings for the same periods.
 */
#include "certificates.h"
#include "talk.h"

static struct answer *void_reading(const struct person *by, const char *key, int64_t id,
                                   long status, const char *expected)
{
    return ask(by, status, expected,
               "DELETE /api/meter-reads/new/%s/%jd {'reason':'meter swapped'}", key, id);
}

TEST(a_voided_reading_without_certificate_is_kept_as_voided)
{
    struct person *m = certificate_person("void.free"), *b = certificate_person("void.other");
    const char *latest = "GET /api/meter-reads/latestread/vf";
    int64_t ids[3], total = 0;

    certificate_device(m, "vf");
    for (int i = 0; i < 3; i++)
        ids[i] = store(m, "vf", "Delta", days_ago(10 - i), days_ago(9 - i), 100 + i);
    void_reading(b, "vf", ids[2], 404, NULL);
    ask(m, 400, NULL, "DELETE /api/meter-reads/new/vf/%jd {}", ids[2]);
    ask(m, 400, "The request is not valid",
        "DELETE /api/meter-reads/new/vf/%jd {'reason':'me\u200Bter'}", ids[2]);
    void_reading(m, "vf", ids[2], 200, text("{'id':%jd,'value':102}", ids[2]));
    void_reading(m, "vf", ids[2], 404, "Reading not found");
    void_reading(m, "vf", INT64_MAX, 404, "Reading not found");
    ck_assert_int_eq(meter_total(host, m, "vf"), 201);
    ask(m, 200, text("{'id':%jd}", ids[1]), "%s", latest);
    expect_json(ck_status(meter_list(host, m, "vf", "?voided=true"), 200)->json,
                "[{'reason':'meter swapped','voidedBy':'*void.free*'}]");
    ck_assert_int_eq(store(m, "vf", "Delta", days_ago(8), days_ago(7), 7), ids[2]);
    void_reading(m, "vf", ids[0], 200, NULL);
    struct answer *sums = ask(m, 200, NULL, "GET /api/meter-reads/new/vf/totals?by=year");

    for (size_t i = 0; i < json_array_size(sums->json); i++)
        total += int_in(item_of(sums, NULL, i), "value");
    ck_assert_int_eq(total, 101 + 7);
    expect_json(ck_status(meter_list(host, m, "vf", "?voided=true&limit=1"), 200)->json,
                text("[{'id':%jd}]", ids[0]));
    void_reading(m, "vf", ids[1], 200, NULL);
    void_reading(m, "vf", ids[2], 200, NULL);
    ask(m, 404, NULL, "%s", latest);
    store(m, "vf", "Delta", days_ago(10), days_ago(9), 5);
}

TEST(voiding_a_certified_history_reading_cancels_its_certificate)
{
    struct person *m = certificate_person("void.history");

    certificate_device(m, "vh");
    int64_t id = store(m, "vh", "History", days_ago(10), days_ago(9), 5000);

    certificates_issue(db, host);
    void_reading(m, "vh", id, 403, "Forbidden");
    ck_assert_int_eq(meter_total(host, m, "vh"), 5000);
    void_reading(admin, "vh", id, 200, NULL);
    expect_json(log_of(m, "")->json, "[{'status':'Cancelled','groupId':null}]");
    certificates_issue(db, host);
    ck_assert_uint_eq(log_count(m, ""), 1);
    store(m, "vh", "History", days_ago(10), days_ago(9), 4000);
    certificates_issue(db, host);
    expect_json(log_of(m, "")->json,
                "[{'status':'Succeeded','readvalue_watthour':4000},{'status':'Cancelled'}]");
}

TEST(voided_certified_energy_is_deducted_from_the_next_certificate)
{
    struct person *m = certificate_person("void.delta");
    int64_t start = days_ago(10), group = certificate_group_of(m, "vd", "daily", start, NULL);
    int64_t id = store(m, "vd", "Delta", start, start + DAY_MS, 5300);

    certificates_issue(db, host);
    void_reading(m, "vd", id, 403, "Forbidden");
    void_reading(admin, "vd", id, 200, NULL);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 5000);
    ck_assert_int_eq(certificate_group_carried(m, group), -5000);
    ck_assert_uint_eq(log_count(m, "?maxWatthour=-1000&status=Carried"), 1);
    certificates_expect_sums(db);
    store(m, "vd", "Delta", start, start + DAY_MS, 3200);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 5000);
    ck_assert_int_eq(certificate_group_carried(m, group), -1800);
    store(m, "vd", "Delta", start + DAY_MS, start + 2 * DAY_MS, 4000);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 7000);
    ck_assert_int_eq(certificate_group_carried(m, group), 200);
    certificates_expect_sums(db);
}

TEST(a_late_reading_not_yet_issued_can_be_voided_without_an_admin)
{
    struct person *m = certificate_person("void.late");
    int64_t now = sql_number(db, "SELECT (extract(epoch FROM date_trunc('hour', now()))"
                                 " * 1000)::bigint");
    int64_t group = certificate_group_of(m, "vl", "monthly", days_ago(10), NULL);
    int64_t id = store(m, "vl", "Delta", now - HOUR_MS, now, 2000);

    certificates_issue(db, host);
    void_reading(m, "vl", id, 200, NULL); /* the cycle has not ended */
    ck_assert_int_eq(certificates_issued(group), 0);
}

TEST(a_reading_of_carried_energy_can_be_voided_without_an_admin)
{
    struct person *m = certificate_person("void.carried");
    int64_t start = days_ago(10), group = certificate_group_of(m, "vc", "daily", start, NULL);
    int64_t id = store(m, "vc", "Delta", start, start + DAY_MS, 600);

    certificates_issue(db, host);
    void_reading(m, "vc", id, 200, NULL);
    certificates_issue(db, host);
    ck_assert_int_eq(certificate_group_carried(m, group), 0);
    store(m, "vc", "Delta", start, start + DAY_MS, 600);
    store(m, "vc", "Delta", start + DAY_MS, start + 2 * DAY_MS, 700);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 1000);
    void_reading(m, "vc", id, 403, "Forbidden"); /* the certificate took the carried energy */
    certificates_expect_sums(db);
}

TEST(a_host_without_the_module_certificate_protects_certified_readings)
{
    struct host *bare = host_start(&(struct host_spec){.name = "corrections_bare",
                                                       .database = "corrections",
                                                       .modules = "[auth, device, reading]"});
    struct person *m = certificate_person("void.bare");
    const char *call = "DELETE /api/meter-reads/new/vb/%jd {'reason':'meter swapped'}";

    certificate_device(m, "vb");
    int64_t id = store(m, "vb", "History", days_ago(10), days_ago(9), 5000);

    certificates_issue(db, host);
    ask_on(bare, m, 403, "Forbidden", call, id);
    ask_on(bare, admin, 200, NULL, call, id);
    expect_json(log_of(m, "")->json, "[{'status':'Cancelled'}]");
}

/* Whichever comes first, the certified readings are the stored ones. */
TEST(voiding_readings_while_cycles_are_issued_keeps_the_sums_equal)
{
    const int rounds = repetitions(4, 10);
    struct person *m = certificate_person("void.race");
    int64_t start = days_ago(20), group = certificate_group_of(m, "vr", "daily", start, NULL);

    for (int round = 0; round < rounds; round++) {
        int64_t at = start + round * DAY_MS;
        int64_t id = store(m, "vr", "Delta", at, at + HOUR_MS, 1700);
        int status;

        store(m, "vr", "Delta", at + HOUR_MS, at + DAY_MS, 900);
        pid_t job = meter_issue_start(host);

        void_reading(admin, "vr", id, 200, NULL);
        ck_assert(process_wait(job, 200000, &status));
    }
    certificates_issue(db, host);
    certificates_expect_sums(db);
    ck_assert_int_eq(certificates_issued(group) + certificate_group_carried(m, group),
                     rounds * 900);
}

OPENED_SUITE(corrections, certificates_open, 600)
