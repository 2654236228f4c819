/* Deleted and Inactive devices: their readings and groups. */
#include "certificates.h"
#include "talk.h"

enum { SUBMITTERS = 15 };

/* Returns the number of rows of a table for a device. */
static int64_t rows_of(const char *table, int64_t device)
{
    return sql_number(db, text("SELECT count(*) FROM %s WHERE device = %jd", table, device));
}

TEST(a_deleted_device_is_deleted_with_its_readings)
{
    struct person *m = certificate_person("delete.whole");
    int64_t device = meter_make(host, m, "gone", 10, days_ago(100));

    ck_status(meter_series(host, m, "gone", "Delta", days_ago(50), DAY_MS, 5, 700), 201);
    ck_status(meter_read(host, m, "gone", "History", days_ago(40), days_ago(39), 10), 201);
    ck_error(meter_read(host, m, "gone", "History", days_ago(30), days_ago(29), 1e9), 409, "");
    ck_assert_int_eq(rows_of("reading_refused", device), 1);
    ask(m, 200, NULL, "DELETE /api/device/gone");
    EACH_TEXT (table, "reading", "reading_device", "reading_refused", "certificate_look",
               "certificate_history")
        ck_assert_msg(rows_of(table, device) == 0, "%s", table);
    ask(m, 404, NULL, "GET /api/device/gone");
    ask(m, 404, NULL, "GET /api/meter-reads/new/gone");
    ask(m, 404, NULL, "DELETE /api/device/gone");
    meter_make(host, m, "gone", 10, days_ago(100));
    ck_assert_int_eq(meter_total(host, m, "gone"), 0);
}

TEST(a_device_with_certificates_cannot_be_deleted)
{
    struct person *m = certificate_person("delete.certified");
    int64_t history = meter_make(host, m, "history", 10, days_ago(100));
    int64_t member = meter_make(host, m, "member", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", days_ago(20), &member, 1);

    store(m, "history", "History", days_ago(50), days_ago(48), 5000);
    store(m, "member", "Delta", days_ago(10), days_ago(9), 300);
    certificates_issue(db, host);
    EACH_TEXT (key, "history", "member")
        ask(m, 409, "Conflict: the device has certificates", "DELETE /api/device/%s", key);
    ck_assert_int_eq(rows_of("reading", history), 1);
    ck_assert_int_eq(certificate_group_carried(m, group), 300);
}

TEST(data_of_modules_that_are_no_longer_loaded_is_not_orphaned)
{
    struct person *m = certificate_person("delete.unloaded");
    struct host *without = host_start(&(struct host_spec){
        .name = "device_delete_without", .database = "device_delete", .modules = "[auth, device]"});
    int64_t device = meter_make(host, m, "read", 10, days_ago(100));
    int64_t member = meter_make(host, m, "member", 10, days_ago(100));

    meter_make(host, m, "certified", 10, days_ago(100));
    certificate_group_make(m, "daily", days_ago(20), &member, 1);
    store(m, "read", "Delta", days_ago(50), days_ago(49), 300);
    store(m, "certified", "History", days_ago(50), days_ago(48), 5000);
    certificates_issue(db, host);
    ck_error(http(without, "DELETE", "/api/device/certified", m->token, NULL), 409,
             "Conflict: the device has certificates");
    ck_error(http(without, "PATCH", "/api/device/read", m->token, json_pack("{sn}", "capacity")),
             409, "Conflict: capacity cannot be cleared");
    ck_status(http(without, "PATCH", "/api/device/member", m->token,
                   json_pack("{ss}", "status", "Inactive")),
              200);
    ck_assert_int_eq(rows_of("certificate_former", member), 1);
    ck_status(http(without, "DELETE", "/api/device/read", m->token, NULL), 200);
    ck_assert_int_eq(rows_of("reading", device), 0);
}

TEST(a_deleted_device_without_certificates_leaves_its_group)
{
    struct person *m = certificate_person("delete.member");
    int64_t devices[2] = {meter_make(host, m, "first", 10, days_ago(100)),
                          meter_make(host, m, "second", 10, days_ago(100))};

    certificate_group_make(m, "daily", days_ago(20), devices, 2);
    ask(m, 200, NULL, "DELETE /api/device/first");
    ck_assert_int_eq(rows_of("certificate_member", devices[0]), 0);
    ck_assert_int_eq(rows_of("certificate_member", devices[1]), 1);
    ask(m, 200, NULL, "GET " GROUPS);
}

TEST(an_inactive_device_is_not_listed_and_refuses_readings)
{
    struct person *m = certificate_person("delete.inactive");

    meter_make(host, m, "idle", 10, days_ago(100));
    store(m, "idle", "Delta", days_ago(50), days_ago(49), 100);
    ask(m, 400, NULL, "PATCH /api/device/idle {'status':'inactive'}");
    ask(m, 200, "{'status':'Inactive'}", "PATCH /api/device/idle {'status':'Inactive'}");
    ck_error(meter_read(host, m, "idle", "Delta", days_ago(49), days_ago(48), 100), 409,
             "Conflict: the device is Inactive");
    ask(m, 200, "[]", "GET /api/device");
    struct answer *idle = ask(m, 200, "[{}]", "GET /api/device?status=Inactive");

    ck_assert(json_equal(idle->json, ask(m, 200, NULL, "GET /api/device?status=All")->json));
    ck_assert_int_eq(meter_total(host, m, "idle"), 100);
    ask(m, 200, NULL, "PATCH /api/device/idle {'status':'Active'}");
    store(m, "idle", "Delta", days_ago(49), days_ago(48), 100);
}

/* Whichever comes first, no reading is left without its device. */
TEST(a_deletion_in_parallel_with_readings_leaves_no_reading)
{
    struct person *m = certificate_person("delete.race");

    for (int round = 0; round < 5; round++) {
        const char *key = text("race%d", round);
        int64_t device = meter_make(host, m, key, 10, days_ago(100));
        struct call calls[SUBMITTERS + 1];
        struct answer *answers[SUBMITTERS + 1];

        for (int i = 0; i < SUBMITTERS; i++)
            calls[i] = call_by(m,
                               "POST /api/meter-reads/new/%s {'type':'Delta','unit':'Wh',"
                               "'startDate':'%s','endDate':'%s','value':5}",
                               key, time_text(days_ago(60 - i)), time_text(days_ago(59 - i)));
        calls[SUBMITTERS] = call_by(m, "DELETE /api/device/%s", key);
        parallel(host, calls, answers, SUBMITTERS + 1);
        ck_status(answers[SUBMITTERS], 200);
        for (int i = 0; i < SUBMITTERS; i++)
            ck_assert_msg(answers[i]->status == 201 || answers[i]->status == 404, "%s",
                          answers[i]->body);
        ck_assert_int_eq(rows_of("reading", device), 0);
        ck_assert_int_eq(rows_of("reading_device", device), 0);
    }
}

/* Two requests, one started before the other, both wait for a lock that is then released: both must
 * end. The second one goes to the host `other`. */
static void expect_both(PGconn *holder, const struct call calls[2], const struct host *other)
{
    struct pending_call *both[2];

    for (int i = 0; i < 2; i++) {
        both[i] = call_begin(i ? other : host, &calls[i]);
        sql_soon(db, text("SELECT (count(*) > %d)::int FROM pg_stat_activity WHERE"
                          " wait_event_type = 'Lock' AND datname = current_database()",
                          i));
    }
    sql_run(holder, "COMMIT");
    for (int i = 0; i < 2; i++) {
        const struct answer *answer = call_end(both[i]);

        ck_assert_msg(answer->status < 500, "%d: %ld %s", i, answer->status, answer->body);
    }
}

/* If the requests took locks in different orders, each would wait for the other. They go to two
 * hosts, because one host would run the transactions one after the other. */
TEST(voiding_a_reading_and_deleting_its_device_do_not_deadlock)
{
    struct person *m = certificate_person("delete.void");
    PGconn *holder = database_connect(the_postgres, PQdb(db));
    struct host *other = host_start(&(struct host_spec){
        .name = "device_delete_other", .database = "device_delete", .modules = METER_MODULES});
    int64_t device = meter_make(host, m, "void", 10, days_ago(100));
    int64_t id = store(m, "void", "History", days_ago(50), days_ago(49), 100);
    const char *row = text("device = %jd", device);

    certificates_issue(db, host);
    sql_run(db,
            text("INSERT INTO certificate_history VALUES (%jd, 'infinity', 'infinity')", device));
    sql_run(holder, "BEGIN");
    sql_run(holder, text("SELECT FROM reading_device WHERE %s AND type = 'H' FOR UPDATE", row));
    const struct call both[2] = {
        call_by(m, "DELETE /api/meter-reads/new/void/%jd {'reason':'wrong'}", id),
        call_by(m, "DELETE /api/device/void")};

    expect_both(holder, both, other);
    PQfinish(holder);
    ck_assert_int_eq(rows_of("reading", device), 0);
}

TEST(leaving_a_group_and_deleting_it_do_not_deadlock)
{
    struct person *m = certificate_person("delete.group");
    PGconn *holder = database_connect(the_postgres, PQdb(db));
    int64_t device = meter_make(host, m, "leaver", 10, days_ago(100));
    int64_t group = certificate_group_make(m, "daily", days_ago(20), &device, 1);
    const char *path = text(GROUPS "/%jd", group);

    certificates_issue(db, host);
    sql_run(holder, "BEGIN");
    sql_run(holder, text("SELECT FROM certificate_member WHERE group_id = %jd FOR UPDATE", group));
    const struct call both[2] = {call_by(m, "DELETE %s/devices/leaver", path),
                                 call_by(m, "DELETE %s", path)};

    expect_both(holder, both, host);
    PQfinish(holder);
    ck_assert_int_eq(rows_of("certificate_member", device), 0);
    ck_assert_int_eq(rows_of("certificate_former", device), 0);
}

OPENED_SUITE(device_delete, certificates_open, 60)
