/*
 * Groups of devices: names, keys and cycles. Devices join and leave groups, groups end and are
 * deleted: the energy of a device in a cycle is certified once, with the group in which the device
 * was then. Days pass by shifting the times of joining and leaving.
 */
#include "certificates.h"
#include "talk.h"

/* Send requests for a group; a `status` of 200 or an error with this message must come. */
static struct answer *join(const struct person *by, int64_t group, int64_t device, long status,
                           const char *message)
{
    return ask(by, status, message, "POST " GROUPS "/%jd/devices {'deviceIds':[%jd]}", group,
               device);
}

static void leave(const struct person *by, int64_t group, const char *key, long status,
                  const char *message)
{
    ask(by, status, message, "DELETE " GROUPS "/%jd/devices/%s", group, key);
}

/* `end`: JSON */
static void end_group(const struct person *by, int64_t group, const char *end, long status,
                      const char *expected)
{
    ask(by, status, expected, "PATCH " GROUPS "/%jd {'end':%s}", group, end);
}

static const char *in_quotes(int64_t time)
{
    return text("\"%s\"", time_text(time));
}

/* Simulates this many days since the device joined or left. */
static void pass_days(int64_t device, int days)
{
    sql_run(db, text("UPDATE certificate_former SET since_at = since_at - interval '%d days',"
                     " until_at = until_at - interval '%d days' WHERE device = %jd",
                     days, days, device));
    sql_run(db, text("UPDATE certificate_member SET since_at = since_at - interval '%d days'"
                     " WHERE device = %jd",
                     days, device));
}

static int64_t now_in_database(void)
{
    return sql_number(db, "SELECT (extract(epoch FROM now()) * 1000)::bigint");
}

/* Checks when a device joins its group, or leaves its former group. */
static void expect_joins(int64_t device, int64_t at)
{
    sql_is(db, at,
           "SELECT (extract(epoch FROM max(since_at)) * 1000)::bigint"
           " FROM certificate_member WHERE device = %jd",
           device);
}

static void expect_leaves(int64_t device, int64_t at)
{
    sql_is(db, at,
           "SELECT (extract(epoch FROM max(until_at)) * 1000)::bigint"
           " FROM certificate_former WHERE device = %jd",
           device);
}

TEST(a_device_is_in_at_most_one_group_of_its_organization)
{
    struct person *m = certificate_person("cert.groups"), *b = certificate_person("cert.groups.b");
    int64_t first, second = certificate_device(m, "g2"), third = certificate_device(b, "g3");
    const char *start = time_text(days_ago(3));
    const char *group = "POST " GROUPS " {'name':'G','frequency':'%s','start':'%s','deviceIds':%s}";

    certificate_group_of(m, "g1", "weekly", days_ago(20), &first);
    exchanges(host,
              {text(group, "daily", start, text("[%jd,%jd]", first, second)), m, 409,
               "{'errors':[{'field':'deviceIds[0]'}]}"},
              {text(group, "daily", start, text("[%jd,%jd]", second, third)), m, 400,
               "{'errors':[{'field':'deviceIds[1]'}]}"},
              {text(group, "daily", start, text("[%jd,%jd]", second, second)), m, 400},
              {text(group, "biennial", start, text("[%jd]", second)), m, 400},
              {text(group, "daily", start, text("[%jd]", first)), admin, 400},
              {text("POST " GROUPS "?organizationId=%jd {'name':'Elsewhere','frequency':'daily',"
                    "'start':'%s','deviceIds':[%jd]}",
                    b->organization, start, second),
               m, 201,
               text("{'organizationId':%jd,'warnings':['organizationId: *']}", m->organization)},
              {text("POST " GROUPS " {'name':'Back','frequency':'daily','start':'%s','end':'%s',"
                    "'deviceIds':[%jd]}",
                    start, start, second),
               m, 400},
              {"GET " GROUPS, m, 200, "[{},{}]"}, {"GET " GROUPS, b, 200, "[]"});
}

TEST(devices_of_a_group_may_be_given_by_any_key)
{
    struct person *m = certificate_person("cert.keys"), *b = certificate_person("cert.keys.b");
    static const char *const keys[] = {"K1", "k2", "k3", "k4"};
    int64_t ids[4];

    for (int i = 0; i < 4; i++)
        ids[i] = certificate_device(m, keys[i]);
    /* an externalId that equals another device's id */
    int64_t named = certificate_device(m, text("%jd", ids[3]));
    const char *uuid = answer_text(ask(m, 200, NULL, "GET /api/device/k2"), "uuid");
    const char *group = text("POST " GROUPS " {'name':'Keys','frequency':'daily','start':'%s',"
                             "'deviceIds':",
                             time_text(days_ago(3)));

    certificate_device(b, "k5");
    ask(m, 400, "{'errors':[{'field':'deviceIds[2]'},{},{}]}", "%s['k1','k5',true,{},1.5]}", group);
    ask(m, 400, "{'errors':[{'field':'deviceIds[1]'}]}", "%s['k1','k5']}", group);
    ask(m, 400, NULL, "%s['k1',%jd]}", group, ids[0]);
    ask(m, 201,
        text("{'deviceIds':[%jd,%jd,%jd,%jd,%jd]}", ids[0], ids[1], ids[2], ids[3],
             named), /* the deviceIds of GET */
        "%s['k1','%s',%jd,'%jd',%jd]}", group, uuid, ids[2], ids[3], ids[3]);
}

TEST(a_group_is_read_and_renamed_only_by_its_organization)
{
    struct person *m = certificate_person("cert.rename"), *b = certificate_person("cert.rename.b");
    int64_t group = certificate_group_of(m, "rn1", "daily", days_ago(5), NULL);
    const char *path = text(GROUPS "/%jd", group);
    struct answer *all = ask(m, 200, NULL, "GET " GROUPS);
    struct answer *one = ask(m, 200, NULL, "GET %s", path);

    ck_assert(json_equal(one->json, item_of(all, NULL, 0)));
    struct answer *renamed =
        ask(m, 200, "{'name':'South \u2600'}",
            "PATCH %s {'name':'South \u2600','id':1,'frequency':'hourly'}", path);

    json_object_set_new(one->json, "name", json_string("South \u2600"));
    ck_assert(json_equal(renamed->json, one->json)); /* nothing else has changed */
    ck_assert(json_equal(ask(admin, 200, NULL, "GET %s", path)->json, renamed->json));
    exchanges(host, {text("GET %s", path), b, 404, "Device group not found"},
              {text("PATCH %s {'name':'Taken'}", path), b, 404},
              {text("PATCH %s {'name':'  '}", path), m, 400},
              {text("PATCH %s {'name':'roof\u200Btops'}", path), m, 400},
              {text("POST " GROUPS " {'name':'roof\u200Btops','deviceIds':['rn1'],"
                    "'frequency':'daily','start':'2026-01-01'}"),
               m, 400, "{'errors':[{'field':'name'}]}"},
              {text("PATCH %s {'name':null}", path), m, 400}, {text("PATCH %s {}", path), m, 400},
              {"GET " GROUPS "/x", m, 400},
              {"PATCH " GROUPS "/9223372036854775807 {'name':'Nowhere'}", m, 404});
}

/* Groups start at ends of months and on a leap day. A full run tests a time of every day of six
 * years. */
TEST(every_time_is_in_exactly_one_cycle_for_each_frequency)
{
    static const char *const frequencies[] = {"hourly",  "daily",     "weekly",
                                              "monthly", "quarterly", "yearly"};
    static const char *const starts[] = {"2020-02-29", "2021-01-31", "2021-11-30", "2022-01-01"};

    for (int i = 0; i < 24; i++) {
        sql_is(db, 0,
               "SELECT CASE WHEN count(*) < %d THEN -1 ELSE count(*) FILTER (WHERE (n >= 0"
               " AND certificate_cycle_at(f, s, n) < t AND last >= t"
               " AND certificate_cycle(f, s, last) = n) IS NOT TRUE) END"
               " FROM (VALUES ('%s', '%sT00:00:00Z'::timestamptz)) v (f, s),"
               " generate_series(s + interval '1 hour', s + interval '6 years', '%d hours') t,"
               " LATERAL (SELECT certificate_cycle(f, s, t) AS n OFFSET 0) c,"
               " LATERAL (SELECT certificate_cycle_at(f, s, n + 1) AS last OFFSET 0) e",
               repetitions(900, 2200), frequencies[i / 4], starts[i % 4], repetitions(53, 23));
    }
}

TEST(quarterly_and_yearly_cycles_keep_the_end_of_the_month)
{
    static const struct {
        const char *frequency, *start, *end;
    } cycles[] = {
        {"quarterly", "2025-01-31", "2025-04-30"},
        {"yearly", "2024-02-29", "2025-02-28"},
    };
    static const char epoch[] = "SELECT extract(epoch FROM '%sT00:00:00Z'::timestamptz)::bigint"
                                " * 1000";
    struct person *m = certificate_person("cert.quarters");

    for (int i = 0; i < 2; i++) {
        const char *name = text("quarter%d", i);
        int64_t start = sql_number(db, text(epoch, cycles[i].start));
        int64_t end = sql_number(db, text(epoch, cycles[i].end));
        int64_t device = meter_make(host, m, name, 10, start - 100 * DAY_MS);
        int64_t group = certificate_group_make(m, cycles[i].frequency, start, &device, 1);

        store(m, name, "Delta", start - DAY_MS, start, 5000);
        store(m, name, "Delta", start, start + DAY_MS, 1600);
        store(m, name, "Delta", end - DAY_MS, end, 1700);
        store(m, name, "Delta", end, end + DAY_MS, 2000);
        certificates_issue(db, host);
        struct answer *log = log_of(m, text("?groupId=%jd", group));

        ck_assert_uint_eq(json_array_size(log->json), 6); /* each carries 300 forward */
        expect_json(item_of(log, NULL, 5),
                    text("{'readvalue_watthour':3300,'ongoing_start_date':'%s',"
                         "'ongoing_end_date':'%s'}",
                         time_text(start), time_text(end)));
        ck_assert_int_eq(certificate_group_carried(m, group), 300);
    }
}

/* ---- joining and leaving ---- */

TEST(a_device_joins_from_the_next_cycle_on)
{
    struct person *m = certificate_person("groups.join");
    int64_t group = certificate_group_of(m, "gj1", "daily", days_ago(20), NULL);
    int64_t second = certificate_device(m, "gj2");

    store_series(m, "gj2", "Delta", days_ago(10), DAY_MS, 10, 2000);
    expect_json(join(m, group, second, 200, NULL)->json, "{'deviceIds':['*','*']}");
    expect_joins(second, days_ago(-1));
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 0); /* the device was in no group then */
    pass_days(second, 5);
    sql_run(db, text("INSERT INTO certificate_look VALUES (%jd, '-infinity', 'infinity')", second));
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 4 * 2000); /* the last four days */
}

TEST(late_readings_count_for_the_group_of_their_time)
{
    struct person *m = certificate_person("groups.move");
    int64_t device, old = certificate_group_of(m, "gm1", "daily", days_ago(20), &device);
    int64_t new = certificate_group_of(m, "gm2", "daily", days_ago(20), NULL);

    join(m, new, device, 409, "A device can be in one group only");
    leave(m, old, "gm1", 200, NULL);
    leave(m, old, "gm1", 404, "The device is not in the group");
    expect_leaves(device, days_ago(-1));
    join(m, new, device, 200, NULL);
    expect_joins(device, days_ago(-1));
    pass_days(device, 11); /* the change was ten days ago */
    store_series(m, "gm1", "Delta", days_ago(14), DAY_MS, 8, 1500);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(old), 4 * 1500);
    ck_assert_int_eq(certificates_issued(new), 4 * 1500);
    store(m, "gm1", "Delta", days_ago(16), days_ago(15), 3000);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(old), 4 * 1500 + 3000);
    ck_assert_int_eq(certificates_issued(new), 4 * 1500);
    ask(m, 409, "Conflict", "DELETE /api/device/gm1");
}

TEST(a_group_starting_in_the_past_excludes_the_time_in_another_group)
{
    struct person *m = certificate_person("groups.past");
    int64_t device, old = certificate_group_of(m, "gp1", "daily", days_ago(20), &device);

    store_series(m, "gp1", "Delta", days_ago(20), DAY_MS, 20, 1000);
    certificates_issue(db, host);
    leave(m, old, text("%jd", device), 200, NULL);
    int64_t weekly = certificate_group_make(m, "weekly", days_ago(20), &device, 1);

    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(old), 20000);
    ck_assert_int_eq(certificates_issued(weekly), 0);
    expect_joins(device, days_ago(-1));
}

TEST(devices_of_an_ended_group_may_join_another)
{
    struct person *m = certificate_person("groups.end");
    int64_t device, group = certificate_group_of(m, "ge1", "monthly", days_ago(20), &device);
    int64_t now = now_in_database();

    store_series(m, "ge1", "Delta", days_ago(20), DAY_MS, 18, 301);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 0); /* the month has not ended */
    end_group(m, group, in_quotes(days_ago(21)), 409, "Conflict: cycles that have ended");
    end_group(m, group, in_quotes(now), 200, NULL);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 5000);
    ck_assert_int_eq(certificate_group_carried(m, group), 18 * 301 - 5000);
    end_group(m, group, in_quotes(now + DAY_MS), 409, "Conflict: the group has ended");
    join(m, group, certificate_device(m, "ge2"), 409, "Conflict");
    int64_t daily = certificate_group_make(m, "daily", days_ago(20), &device, 1);

    store(m, "ge1", "Delta", days_ago(2), days_ago(1), 500);
    certificates_issue(db, host); /* a late reading of the group that has ended */
    ck_assert_int_eq(certificates_issued(daily), 0);
    ck_assert_int_eq(certificate_group_carried(m, group), 18 * 301 + 500 - 5000);
}

TEST(the_end_of_a_group_can_be_removed)
{
    struct person *m = certificate_person("groups.endless");
    int64_t group = certificate_group_of(m, "gu1", "daily", days_ago(20), NULL);

    end_group(m, group, in_quotes(now_in_database() + DAY_MS), 200, NULL);
    end_group(m, group, "null", 200, "{'end':null}");
    end_group(m, group, "null", 200, NULL);
    store_series(m, "gu1", "Delta", days_ago(3), DAY_MS, 2, 1500);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 3000);
    end_group(m, group, in_quotes(now_in_database()), 200, NULL);
    end_group(m, group, "null", 409, "Conflict: the group has ended");
}

TEST(energy_after_a_device_left_belongs_to_its_next_group_even_if_the_former_lasts_longer)
{
    struct person *m = certificate_person("groups.longer");
    int64_t device, old = certificate_group_of(m, "gl1", "monthly", days_ago(20), &device);

    end_group(m, old, in_quotes(days_ago(-1)), 200, NULL);
    leave(m, old, "gl1", 200, NULL);
    expect_leaves(device, days_ago(-1));
    end_group(m, old, "null", 200, NULL);
    pass_days(device, 11); /* the device left ten days ago, in the middle of a cycle */
    int64_t daily = certificate_group_make(m, "daily", days_ago(20), &device, 1);

    store_series(m, "gl1", "Delta", days_ago(15), DAY_MS, 10, 2000);
    certificates_issue(db, host);
    end_group(m, old, in_quotes(now_in_database()), 200, NULL);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(daily), 5 * 2000);
    ck_assert_int_eq(certificates_issued(old), 5 * 2000);
}

TEST(only_a_group_without_certificates_can_be_deleted)
{
    struct person *m = certificate_person("groups.delete"), *b = certificate_person("groups.del.b");
    int64_t device, group = certificate_group_of(m, "gd1", "daily", days_ago(20), &device);

    join(b, group, device, 404, "Device group not found");
    leave(b, group, "gd1", 404, "Device group not found");
    ask(b, 404, "Device group not found", "DELETE " GROUPS "/%jd", group);
    ask(m, 200, NULL, "DELETE " GROUPS "/%jd", group);
    ask(m, 404, NULL, "GET " GROUPS "/%jd", group);
    group = certificate_group_make(m, "daily", days_ago(20), &device, 1);
    store(m, "gd1", "Delta", days_ago(4), days_ago(3), 10);
    certificates_issue(db, host);
    ask(m, 409, "Conflict: energy of the group", "DELETE " GROUPS "/%jd", group);
}

TEST(an_inactive_device_leaves_its_group_and_cannot_join_one)
{
    struct person *m = certificate_person("groups.idle");
    int64_t device, group = certificate_group_of(m, "gi1", "daily", days_ago(20), &device);

    certificate_group_of(m, "gi2", "daily", days_ago(20), NULL);
    store(m, "gi1", "Delta", days_ago(4), days_ago(3), 4000);
    ask(m, 200, NULL, "PATCH /api/device/gi1 {'status':'Inactive'}");
    expect_leaves(device, days_ago(-1));
    join(m, group, device, 409, "Conflict: device ");
    ask(m, 409, "Conflict: device ",
        "POST " GROUPS " {'name':'Group','frequency':'daily','start':'%s','deviceIds':[%jd]}",
        time_text(days_ago(2)), device);
    certificates_issue(db, host);
    ck_assert_int_eq(certificates_issued(group), 4000);
}

static struct call join_call(const struct person *by, int64_t group, int64_t device)
{
    return call_by(by, "POST " GROUPS "/%jd/devices {'deviceIds':[%jd]}", group, device);
}

TEST(a_device_that_joins_two_groups_in_parallel_is_in_one)
{
    struct person *m = certificate_person("groups.race");
    int64_t groups[] = {certificate_group_of(m, "gr-seed0", "daily", days_ago(20), NULL),
                        certificate_group_of(m, "gr-seed1", "daily", days_ago(20), NULL)};

    for (int round = 0; round < 10; round++) {
        int64_t device = certificate_device(m, text("gr%d", round));
        struct call calls[8];
        struct answer *answers[8];
        int joined = 0;

        for (int i = 0; i < 8; i++)
            calls[i] = join_call(m, groups[i % 2], device);
        parallel(host, calls, answers, 8);
        for (int i = 0; i < 8; i++) {
            joined += answers[i]->status == 200;
            if (answers[i]->status != 200)
                ck_status(answers[i], 409);
        }
        ck_assert_int_eq(joined, 1);
    }
}

/* Whichever comes first, no membership is left without its device. */
TEST(joining_a_group_while_the_device_is_deleted_leaves_no_membership)
{
    struct person *m = certificate_person("groups.race.delete");
    int64_t group = certificate_group_of(m, "grd-seed", "daily", days_ago(20), NULL);

    for (int round = 0; round < repetitions(4, 12); round++) {
        const char *key = text("grd%d", round);
        int64_t device = certificate_device(m, key);
        struct call calls[2] = {join_call(m, group, device),
                                call_by(m, "DELETE /api/device/%s", key)};
        struct answer *answers[2];

        parallel(host, calls, answers, 2);
        ck_status(answers[1], 200);
        sql_is(db, 0, "SELECT count(*) FROM certificate_member WHERE device = %jd", device);
    }
}

/* Devices leave and come back while the job runs: every Wh is certified once. */
TEST(leaving_a_group_while_cycles_are_issued_certifies_every_wh_once)
{
    enum { DAYS = 30 };
    int rounds = repetitions(5, 15), status;
    struct person *m = certificate_person("groups.race.issue");
    int64_t device, group = certificate_group_of(m, "gri", "daily", days_ago(DAYS), &device);

    for (int round = 0; round < rounds; round++) {
        int64_t first = days_ago(DAYS) + round * HOUR_MS;
        int64_t second = days_ago(DAYS - 1 - round) + HOUR_MS * 20;

        store(m, "gri", "Delta", first, first + HOUR_MS, 1000);
        store(m, "gri", "Delta", second, second + HOUR_MS, 1000);
        pid_t job = meter_issue_start(host);

        leave(m, group, "gri", 200, NULL);
        join(m, group, device, 200, NULL);
        ck_assert(process_wait(job, 200000, &status));
    }
    certificates_issue(db, host);
    certificates_expect_sums(db);
    ck_assert_int_eq(certificates_issued(group), rounds * 2000);
    sql_is(db, rounds * 2000,
           "SELECT sum(wh) FROM certificate_entry WHERE group_id ="
           " %jd",
           group);
}

TEST(a_group_can_be_shared_with_another_organization)
{
    struct person *m = certificate_person("groups.share"), *b = certificate_person("groups.buyer");
    int64_t group = certificate_group_of(m, "gs1", "daily", days_ago(20), NULL), other;
    int64_t kept = certificate_group_of(m, "gs2", "daily", days_ago(20), &other);

    store(m, "gs1", "Delta", days_ago(4), days_ago(3), 4000);
    store(m, "gs2", "Delta", days_ago(4), days_ago(3), 4000);
    certificates_issue(db, host);
    const char *log = text("GET " LOG "?groupId=%jd", group);
    const char *share =
        text("POST " GROUPS "/%jd/share {'organizationId':%jd}", group, b->organization);
    const char *shared =
        text("[{'id':%jd,'organizationId':%jd,'frequency':'daily'}]", group, m->organization);
    const char *one =
        text("GET " LOG "/%jd", int_in(item_of(ask(m, 200, "[{}]", "%s", log), NULL, 0), "id"));

    exchanges(host, {log, b, 200, "[]"}, {one, b, 404}, {share, b, 404},
              {"GET " GROUPS "/shared", b, 200, "[]"}, {share, m, 200, "[{}]"},
              {"GET " GROUPS "/shared", b, 200, shared}, {"GET " GROUPS "/shared", m, 200, "[]"},
              {text("GET " GROUPS "/shared?after=%jd", group), b, 200, "[]"}, {log, b, 200, "[{}]"},
              {one, b, 200}, {text("GET " LOG "/export.csv?groupId=%jd", group), b, 200, ",4000,"},
              /* b sees no other entries, and nothing else of the group */
              {"GET " LOG, b, 200, "[]"}, {text("GET " LOG "?groupId=%jd", kept), b, 200, "[]"},
              {text("%s&deviceId=%jd", log, other), b, 200, "[]"},
              {text("GET " GROUPS "/%jd", group), b, 404},
              {text("GET " GROUPS "/%jd/share", group), b, 404}, {"GET /api/device/gs1", b, 404},
              {text("POST " GROUPS "/%jd/share {'organizationId':999999}", group), m, 404,
               "Organization not found"},
              {text("GET " GROUPS "/%jd/share", group), m, 200, "[{}]"},
              {text("DELETE " GROUPS "/%jd/share/%jd", group, b->organization), m, 200, "[]"},
              {log, b, 200, "[]"}, {"GET " GROUPS "/shared", b, 200, "[]"}, {one, b, 404});
}

OPENED_SUITE(certificate_groups, certificates_open, 600)
