/*
 * Devices join and leave groups, groups end and are deleted: the energy of a device in a cycle is
 * certified once, with the group in which the device was then. Days pass by shifting the times of
 * joining and leaving.
 */
#include <string.h>

#include "certificates.h"
#include "suite.h"
#include "suites.h"
#include "talk.h"

static void set_up(void)
{
    certificates_open("certificate_groups");
}

static struct answer *join(const struct person *by, int64_t group, int64_t device)
{
    return http(host, "POST", text(GROUPS "/%jd/devices", (intmax_t)group), by->token,
                json_pack("{s[I]}", "deviceIds", (json_int_t)device));
}

static struct answer *leave(const struct person *by, int64_t group, const char *key)
{
    return http(host, "DELETE", text(GROUPS "/%jd/devices/%s", (intmax_t)group, key), by->token,
                NULL);
}

static struct answer *change(const struct person *by, int64_t group, const char *end)
{
    return http(host, "PATCH", text(GROUPS "/%jd", (intmax_t)group), by->token,
                json_pack("{ss?}", "end", end));
}

/* Simulates this many days since the device joined or left. */
static void pass_days(int64_t device, int days)
{
    sql_run(db, text("UPDATE certificate_former SET since_at = since_at - interval '%d days',"
                     " until_at = until_at - interval '%d days' WHERE device = %jd",
                     days, days, (intmax_t)device));
    sql_run(db, text("UPDATE certificate_member SET since_at = since_at - interval '%d days'"
                     " WHERE device = %jd",
                     days, (intmax_t)device));
}

static int64_t issued_of(int64_t group)
{
    return sql_number(db, text("SELECT coalesce(sum(issued_wh), 0) FROM certificate"
                               " WHERE group_id = %jd",
                               (intmax_t)group));
}

static int64_t time_of(const char *column, const char *table, int64_t device)
{
    return sql_number(db, text("SELECT (extract(epoch FROM max(%s)) * 1000)::bigint FROM %s"
                               " WHERE device = %jd",
                               column, table, (intmax_t)device));
}

TEST(a_device_joins_from_the_next_cycle_on)
{
    struct person *m = certificate_person("groups.join");
    int64_t first = meter_make(host, m, "gj1", 10, days_ago(100));
    int64_t second = meter_make(host, m, "gj2", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", days_ago(20), &first, 1);

    ck_status(meter_series(host, m, "gj2", "Delta", days_ago(10), DAY_MS, 10, 2000), 201);
    struct answer *joined = ck_status(join(m, group, second), 200);

    ck_assert_uint_eq(json_array_size(json_object_get(joined->json, "deviceIds")), 2);
    ck_assert_int_eq(time_of("since_at", "certificate_member", second), days_ago(-1));
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 0); /* the device was in no group then */
    pass_days(second, 5);
    sql_run(db, text("INSERT INTO certificate_look VALUES (%jd, '-infinity', 'infinity')",
                     (intmax_t)second));
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 4 * 2000); /* the last four days */
}

TEST(late_readings_go_to_the_group_in_which_the_device_was)
{
    struct person *m = certificate_person("groups.move");
    int64_t device = meter_make(host, m, "gm1", 10, days_ago(100));
    int64_t other = meter_make(host, m, "gm2", 10, days_ago(100));
    int64_t old = certificate_group_make(m, "daily", days_ago(20), &device, 1);
    int64_t new = certificate_group_make(m, "daily", days_ago(20), &other, 1);

    ck_error(join(m, new, device), 409, "A device can be in one group only");
    ck_status(leave(m, old, "gm1"), 200);
    ck_error(leave(m, old, "gm1"), 404, "The device is not in the group");
    ck_assert_int_eq(time_of("until_at", "certificate_former", device), days_ago(-1));
    ck_status(join(m, new, device), 200);
    ck_assert_int_eq(time_of("since_at", "certificate_member", device), days_ago(-1));
    pass_days(device, 11); /* the change was ten days ago */
    ck_status(meter_series(host, m, "gm1", "Delta", days_ago(14), DAY_MS, 8, 1500), 201);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(old), 4 * 1500);
    ck_assert_int_eq(issued_of(new), 4 * 1500);
    ck_status(meter_read(host, m, "gm1", "Delta", days_ago(16), days_ago(15), 3000), 201);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(old), 4 * 1500 + 3000);
    ck_assert_int_eq(issued_of(new), 4 * 1500);
    ask(m, 409, "Conflict", "DELETE /api/device/gm1");
}

TEST(a_group_made_for_the_past_leaves_out_the_time_in_another_group)
{
    struct person *m = certificate_person("groups.past");
    int64_t device = meter_make(host, m, "gp1", 10, days_ago(100));
    int64_t old = certificate_group_make(m, "daily", days_ago(20), &device, 1);

    ck_status(meter_series(host, m, "gp1", "Delta", days_ago(20), DAY_MS, 20, 1000), 201);
    certificates_issue(db, host);
    ck_status(leave(m, old, text("%jd", (intmax_t)device)), 200);
    int64_t weekly = certificate_group_make(m, "weekly", days_ago(20), &device, 1);

    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(old), 20000);
    ck_assert_int_eq(issued_of(weekly), 0);
    ck_assert_int_eq(time_of("since_at", "certificate_member", device), days_ago(-1));
}

TEST(a_group_ends_and_its_devices_are_free)
{
    struct person *m = certificate_person("groups.end");
    int64_t device = meter_make(host, m, "ge1", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "monthly", days_ago(20), &device, 1);
    int64_t now = sql_number(db, "SELECT (extract(epoch FROM now()) * 1000)::bigint");

    ck_status(meter_series(host, m, "ge1", "Delta", days_ago(20), DAY_MS, 18, 301), 201);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 0); /* the month has not ended */
    ck_error(change(m, group, time_text(days_ago(21))), 409, "Conflict: cycles that have ended");
    ck_status(change(m, group, time_text(now)), 200);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 5000);
    ck_assert_int_eq(certificate_group_carried(m, group), 18 * 301 - 5000);
    ck_error(change(m, group, time_text(now + DAY_MS)), 409, "Conflict: the group has ended");
    ck_error(join(m, group, meter_make(host, m, "ge2", 10, days_ago(9))), 409, "Conflict");
    int64_t daily = certificate_group_make(m, "daily", days_ago(20), &device, 1);

    ck_status(meter_read(host, m, "ge1", "Delta", days_ago(2), days_ago(1), 500), 201);
    certificates_issue(db, host); /* a late reading of the group that has ended */
    ck_assert_int_eq(issued_of(daily), 0);
    ck_assert_int_eq(certificate_group_carried(m, group), 18 * 301 + 500 - 5000);
}

TEST(a_groups_end_is_taken_away)
{
    struct person *m = certificate_person("groups.endless");
    int64_t device = meter_make(host, m, "gu1", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", days_ago(20), &device, 1);
    int64_t now = sql_number(db, "SELECT (extract(epoch FROM now()) * 1000)::bigint");

    ck_status(change(m, group, time_text(now + DAY_MS)), 200);
    struct answer *answer = ck_status(change(m, group, NULL), 200);

    ck_assert(json_is_null(json_object_get(answer->json, "end")));
    ck_status(change(m, group, NULL), 200);
    ask(m, 400, NULL, "PATCH " GROUPS "/%jd {'name':null}", group);
    ck_status(meter_series(host, m, "gu1", "Delta", days_ago(3), DAY_MS, 2, 1500), 201);
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 3000);
    int64_t passed = sql_number(db, "SELECT (extract(epoch FROM now()) * 1000)::bigint");

    ck_status(change(m, group, time_text(passed)), 200);
    ck_error(change(m, group, NULL), 409, "Conflict: the group has ended");
}

TEST(a_groups_name_has_no_invisible_characters)
{
    static const char *const names[] = {"roof\u200Btops", "\u202Eroof", "roof\u00AD",
                                        "roo\u0301f\tx",  "e\u0301",    "\u2800"};
    struct person *m = certificate_person("groups.names");
    int64_t device = meter_make(host, m, "gn1", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", days_ago(20), &device, 1);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct answer *answers[] = {
            http(host, "PATCH", text(GROUPS "/%jd", (intmax_t)group), m->token,
                 json_pack("{ss}", "name", names[i])),
            http(host, "POST", GROUPS, m->token,
                 json_pack("{ss s[s] ss ss}", "name", names[i], "deviceIds", "gn1", "frequency",
                           "daily", "start", "2026-01-01")),
        };

        for (int j = 0; j < 2; j++) {
            ck_status(answers[j], 400);
            ck_assert_msg(strstr(answers[j]->body, "\"field\":\"name\"") != NULL, "%s",
                          answers[j]->body);
        }
    }
}

TEST(a_group_of_which_nothing_was_certified_is_deleted)
{
    struct person *m = certificate_person("groups.delete"), *b = certificate_person("groups.del.b");
    int64_t device = meter_make(host, m, "gd1", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", days_ago(20), &device, 1);
    const char *path = text(GROUPS "/%jd", (intmax_t)group);

    ask(b, 404, "Device group not found", "DELETE %s", path);
    ck_error(join(b, group, device), 404, "Device group not found");
    ck_error(leave(b, group, "gd1"), 404, "Device group not found");
    ask(m, 200, NULL, "DELETE %s", path);
    ask(m, 404, NULL, "GET %s", path);
    group = certificate_group_make(m, "daily", days_ago(20), &device, 1);
    ck_status(meter_read(host, m, "gd1", "Delta", days_ago(4), days_ago(3), 10), 201);
    certificates_issue(db, host);
    path = text(GROUPS "/%jd", (intmax_t)group);
    ask(m, 409, "Conflict: energy of the group", "DELETE %s", path);
}

TEST(an_inactive_device_leaves_its_group_and_joins_none)
{
    struct person *m = certificate_person("groups.idle");
    int64_t device = meter_make(host, m, "gi1", 10, days_ago(100));
    int64_t other = meter_make(host, m, "gi2", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", days_ago(20), &device, 1);

    certificate_group_make(m, "daily", days_ago(20), &other, 1);
    ck_status(meter_read(host, m, "gi1", "Delta", days_ago(4), days_ago(3), 4000), 201);
    ask(m, 200, NULL, "PATCH /api/device/gi1 {'status':'Inactive'}");
    ck_assert_int_eq(time_of("until_at", "certificate_former", device), days_ago(-1));
    ck_error(join(m, group, device), 409, "Conflict: device ");
    ck_error(certificate_group_try(m, "daily", days_ago(2), &device, 1), 409, "Conflict: device ");
    certificates_issue(db, host);
    ck_assert_int_eq(issued_of(group), 4000);
}

static struct call join_call(const struct person *by, int64_t group, int64_t device)
{
    return (struct call){.method = "POST",
                         .path = text(GROUPS "/%jd/devices", (intmax_t)group),
                         .token = by->token,
                         .body = text("{\"deviceIds\":[%jd]}", (intmax_t)device)};
}

TEST(of_two_groups_at_a_time_a_device_joins_one)
{
    struct person *m = certificate_person("groups.race");
    int64_t groups[2];

    for (int i = 0; i < 2; i++) {
        int64_t seed = meter_make(host, m, text("gr-seed%d", i), 10, days_ago(100));

        groups[i] = certificate_group_make(m, "daily", days_ago(20), &seed, 1);
    }
    for (int round = 0; round < 10; round++) {
        int64_t device = meter_make(host, m, text("gr%d", round), 10, days_ago(100));
        struct call calls[8];
        struct answer *answers[8];
        int joined = 0;

        for (int i = 0; i < 8; i++)
            calls[i] = join_call(m, groups[i % 2], device);
        parallel(host, calls, answers, 8);
        for (int i = 0; i < 8; i++) {
            ck_assert_msg(answers[i]->status == 200 || answers[i]->status == 409, "%s",
                          answers[i]->body);
            joined += answers[i]->status == 200;
        }
        ck_assert_int_eq(joined, 1);
    }
}

/* Whichever comes first, no membership is left without its device. */
TEST(joining_while_the_device_is_deleted_leaves_no_member_behind)
{
    struct person *m = certificate_person("groups.race.delete");
    int64_t seed = meter_make(host, m, "grd-seed", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", days_ago(20), &seed, 1);

    for (int round = 0; round < repetitions(4, 12); round++) {
        const char *key = text("grd%d", round);
        int64_t device = meter_make(host, m, key, 10, days_ago(100));
        struct call calls[2] = {
            join_call(m, group, device),
            {.method = "DELETE", .path = text("/api/device/%s", key), .token = m->token}};
        struct answer *answers[2];

        parallel(host, calls, answers, 2);
        ck_status(answers[1], 200);
        ck_assert_int_eq(sql_number(db, text("SELECT count(*) FROM certificate_member"
                                             " WHERE device = %jd",
                                             (intmax_t)device)),
                         0);
    }
}

/* Devices leave and come back while the job runs: every Wh is certified once. */
TEST(leaving_while_cycles_are_issued_loses_nothing_and_issues_nothing_twice)
{
    enum { DAYS = 30 };
    int rounds = repetitions(5, 15);
    struct person *m = certificate_person("groups.race.issue");
    int64_t device = meter_make(host, m, "gri", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", days_ago(DAYS), &device, 1);

    for (int round = 0; round < rounds; round++) {
        pid_t job;
        int status;

        ck_status(meter_series(host, m, "gri", "Delta", days_ago(DAYS) + round * HOUR_MS, HOUR_MS,
                               1, 1000),
                  201);
        ck_status(meter_read(host, m, "gri", "Delta", days_ago(DAYS - 1 - round) + HOUR_MS * 20,
                             days_ago(DAYS - 1 - round) + HOUR_MS * 21, 1000),
                  201);
        job = meter_issue_start(host);
        ck_status(leave(m, group, "gri"), 200);
        pass_days(device, 0);
        ck_status(join(m, group, device), 200);
        ck_assert(process_wait(job, 20000, &status));
    }
    certificates_issue(db, host);
    certificates_expect_sums(db);
    ck_assert_int_eq(issued_of(group), rounds * 2000);
    ck_assert_int_eq(sql_number(db, text("SELECT sum(wh) FROM certificate_entry WHERE group_id ="
                                         " %jd",
                                         (intmax_t)group)),
                     rounds * 2000);
}

/* Requests the path with the person's token. */
static struct answer *get(const struct person *by, const char *path)
{
    return http(host, "GET", path, by->token, NULL);
}

TEST(an_organization_reads_the_certificates_of_a_group_that_is_shared_with_it)
{
    struct person *m = certificate_person("groups.share"), *b = certificate_person("groups.buyer");
    int64_t device = meter_make(host, m, "gs1", 10, days_ago(100));
    int64_t other = meter_make(host, m, "gs2", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", days_ago(20), &device, 1);
    int64_t kept = certificate_group_make(m, "daily", days_ago(20), &other, 1);

    for (int i = 1; i <= 2; i++)
        ck_status(meter_read(host, m, text("gs%d", i), "Delta", days_ago(4), days_ago(3), 4000),
                  201);
    certificates_issue(db, host);
    char *base = text(GROUPS "/%jd", (intmax_t)group);
    char *shares = text("%s/share", base), *filter = text("?groupId=%jd", (intmax_t)group);
    int64_t entry = int_in(item_of(log_of(m, filter), NULL, 0), "id");
    char *one = text(LOG "/%jd", (intmax_t)entry);

    ck_assert_uint_eq(json_array_size(log_of(b, filter)->json), 0);
    ck_error(get(b, one), 404, "");
    json_t *with = json_pack("{sI}", "organizationId", (json_int_t)b->organization);

    ck_error(http(host, "POST", shares, b->token, json_incref(with)), 404, "");
    ck_assert_uint_eq(
        json_array_size(ck_status(http(host, "POST", shares, m->token, with), 200)->json), 1);
    ck_assert_uint_eq(json_array_size(log_of(b, filter)->json), 1);
    ck_status(get(b, one), 200);
    ck_assert_ptr_nonnull(
        strstr(ck_status(get(b, text(LOG "/export.csv%s", filter)), 200)->body, ",4000,"));
    /* b sees no other entries */
    ck_assert_uint_eq(json_array_size(log_of(b, "")->json), 0);
    ck_assert_uint_eq(json_array_size(log_of(b, text("?groupId=%jd", (intmax_t)kept))->json), 0);
    ck_assert_uint_eq(
        json_array_size(log_of(b, text("%s&deviceId=%jd", filter, (intmax_t)other))->json), 0);
    ck_error(get(b, base), 404, "");
    ck_error(get(b, shares), 404, "");
    ck_error(get(b, "/api/device/gs1"), 404, "");
    ask(m, 404, "Organization not found", "POST %s {'organizationId':999999}", shares);
    ck_assert_uint_eq(json_array_size(ck_status(get(m, shares), 200)->json), 1);
    ck_assert_uint_eq(
        json_array_size(ask(m, 200, NULL, "DELETE %s/%jd", shares, b->organization)->json), 0);
    ck_assert_uint_eq(json_array_size(log_of(b, filter)->json), 0);
    ck_error(get(b, one), 404, "");
}

STAGE_SUITE(certificate_groups, set_up, 600)
