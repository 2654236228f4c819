/*
 * Limits of bulk uploads: jobs of an account, bytes of an organization, the rights of the sender.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bulk.h"
#include "suite.h"
#include "suites.h"

enum { TWINS = 20, SOON_MS = 30000, QUOTA = 300000, LONG_MS = 700 };

static void set_up(void)
{
    struct host_spec spec = bulk_spec("bulk_limits", true);

    spec.more = text("%s  bytes_per_organization: %d\n  unfinished_days: 3\n", spec.more, QUOTA);
    stage_open(&spec);
    bulk_settle("bulk_limits");
    m = person_make(host, admin, "bulk_limits.m", NULL);
}

/* Returns a file with `rows` things of that name. */
static const char *rows_of(const char *name, int rows, const char *amount)
{
    size_t room = (size_t)rows * 60 + 64, length = 0;
    char *csv = kept(malloc(room));

    length += (size_t)snprintf(csv, room, "name,amount\n");
    for (int i = 1; i <= rows; i++)
        length += (size_t)snprintf(csv + length, room - length, "%s%d,%s\n", name, i, amount);
    return csv;
}

static int64_t usage_of(const struct person *who)
{
    return sql_number(db, text("SELECT coalesce((SELECT bytes FROM bulk_usage WHERE organisation ="
                               " %lld), 0)",
                               (long long)who->organization));
}

/* ---- one Idempotency-Key at a time ---- */

struct twin {
    const struct upload_body *body;
    const struct person *who;
    struct answer *answer;
};

static void *send_twin(void *arg)
{
    static const char *const headers[] = {"Idempotency-Key: bulk-twins", NULL};
    struct twin *twin = arg;

    twin->answer = http_send(host, &(struct call){.method = "POST",
                                                  .path = BULK "?type=Things",
                                                  .token = twin->who->token,
                                                  .type = UPLOAD_TYPE,
                                                  .headers = headers,
                                                  .body = twin->body->bytes,
                                                  .length = twin->body->length});
    return NULL;
}

TEST(retries_with_one_key_leave_nothing_behind)
{
    struct person *who = person_make(host, admin, "bulk_limits.twins", NULL);
    const char *csv = rows_of("t", 200, "1");
    struct upload_body body = {NULL, 0};
    struct twin twins[TWINS];
    pthread_t threads[TWINS];
    int made = 0;

    upload_file(&body, "file", "x.csv", csv, strlen(csv));
    upload_close(&body);
    for (int i = 0; i < TWINS; i++) {
        twins[i] = (struct twin){&body, who, NULL};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, send_twin, &twins[i]), 0);
    }
    for (int i = 0; i < TWINS; i++) {
        pthread_join(threads[i], NULL);
        made += twins[i].answer->status == 201;
        ck_assert_msg(twins[i].answer->status == 201 || twins[i].answer->status == 409 ||
                          twins[i].answer->status == 503,
                      "%s", twins[i].answer->body);
    }
    ck_assert_int_gt(made, 0);
    const char *jobs =
        text("SELECT count(*) FROM bulk_job WHERE account = %lld", (long long)who->id);

    ck_assert_int_eq(sql_number(db, jobs), 1);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM bulk_part p WHERE NOT EXISTS"
                                    " (SELECT FROM bulk_job j WHERE j.id = p.job)"),
                     0);
    ck_assert_int_lt(usage_of(who), 2 * (4096 + (int64_t)strlen(csv)));
}

/* A host that is killed during uploads leaves such jobs. */
TEST(uploads_that_a_crash_cut_off_take_no_place)
{
    struct person *who = person_make(host, admin, "bulk_limits.crash", NULL);

    sql_run(db, text("INSERT INTO bulk_job (id, account, email, role, organisation, type, file,"
                     " status, separator, header, created_at) SELECT gen_random_uuid(), %lld, 'x',"
                     " 2, %lld, 'Things', 'x.csv', 'arriving', ',', '[\"name\"]',"
                     " now() - interval '6 minutes' FROM generate_series(1, 20)",
                     (long long)who->id, (long long)who->organization));
    ck_status(bulk_things(who, "name,amount\nq1,1\n"), 201);
}

/* ---- the quota of an organization ---- */

TEST(an_organization_has_a_quota_of_bytes)
{
    struct person *who = person_make(host, admin, "bulk_limits.quota", NULL);
    const char *csv = rows_of("q", 15000, "1"); /* 140 KB */
    const char *first = bulk_id(bulk_things(who, csv)), *second;

    ck_assert_int_gt(usage_of(who), (int64_t)strlen(csv));
    second = bulk_id(bulk_things(who, csv));
    ck_error(
        bulk_things(who, csv), 409,
        "The organization may have 300000 bytes of bulk uploads at most: delete some that have "
        "ended");
    ck_assert_int_eq(sql_number(db, text("SELECT count(*) FROM bulk_job WHERE account = %lld",
                                         (long long)who->id)),
                     2);
    ck_status(bulk_post(who, first, "cancel"), 200); /* canceled jobs are kept */
    ck_error(bulk_things(who, csv), 409, "The organization may have");
    ck_status(bulk_things(m, "name,amount\nz1,1\n"), 201); /* other organizations still may */
    ask(who, 200, NULL, "DELETE " BULK "/%s", first);
    ck_error(bulk_log_of(who, first, ""), 404, "");
    bulk_id(bulk_things(who, "name,amount\nz1,1\n"));
    ask(who, 200, NULL, "DELETE " BULK "/%s", second);
}

TEST(what_is_found_about_rows_counts)
{
    struct person *who = person_make(host, admin, "bulk_limits.found", NULL);
    const char *csv = rows_of("w", 4000, "-1"); /* 35 KB, with far more bytes of problems */

    ck_error(bulk_things(who, csv), 409, "The organization may have");
    ck_assert_int_eq(usage_of(who), 0);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM bulk_finding f WHERE NOT EXISTS"
                                    " (SELECT FROM bulk_job j WHERE j.id = f.job)"),
                     0);
}

/* The usage always equals the sum over all jobs. */
TEST(usage_follows_a_job_to_its_end)
{
    struct person *who = person_make(host, admin, "bulk_limits.usage", NULL);
    const char *id = bulk_id(bulk_things(who, "name,amount\nu1,1\nu2,-1\nu3,666\nu4,2\n"));
    int64_t before = usage_of(who);

    bulk_store(who, id);
    ck_assert_int_eq(usage_of(who), sql_number(db, text("SELECT sum(bytes) FROM bulk_job WHERE"
                                                        " organisation = %lld",
                                                        (long long)who->organization)));
    ck_assert_int_gt(usage_of(who), before); /* one more row failed */
    ask(who, 200, NULL, "DELETE " BULK "/%s", id);
    ck_assert_int_eq(usage_of(who), 0);
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM heap_thing WHERE name IN ('u1', 'u4')"),
                     2);
}

TEST(a_job_that_runs_is_not_deleted)
{
    const char *id = bulk_id(bulk_things(m, "name,amount\nd1,1\n"));

    sql_run(db, text("UPDATE bulk_job SET status = 'confirmed', confirmed_at = now(),"
                     " retry_at = now() + interval '1 hour' WHERE id = '%s'",
                     id));
    ask(m, 409, NULL, "DELETE " BULK "/%s", id);
    ck_status(bulk_post(m, id, "cancel"), 200);
}

/* ---- senders that lose the right ---- */

static bool batch_waits(void *long_enough)
{
    return sql_number(db, text("SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
                               " WHERE l.relation = 'heap_thing'::regclass AND NOT l.granted"
                               " AND a.query_start < now() - interval '%d ms'",
                               *(const int *)long_enough)) > 0;
}

/* `change` happens while a batch of the job is running, which lasts longer than the cached check of
 * its sender; many batches are still to come. */
static void is_cancelled(const struct person *who, const char *id,
                         void (*change)(const struct person *who), const char *reason)
{
    PGconn *holder = database_connect(the_postgres, "bulk_limits");
    int soon = 0, enough = LONG_MS;

    sql_run(holder, "BEGIN");
    sql_run(holder, "LOCK TABLE heap_thing IN SHARE MODE");
    ck_status(bulk_post(who, id, "confirm"), 200);
    ck_assert(wait_until(batch_waits, &soon, SOON_MS));
    change(who);
    ck_assert(wait_until(batch_waits, &enough, SOON_MS));
    sql_run(holder, "ROLLBACK");
    PQfinish(holder);
    struct answer *log = bulk_await(admin, id, "cancelled");

    ck_assert_str_eq(answer_text(log, "reason"), reason);
    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), 0);
    ck_assert_int_eq(
        sql_number(db, text("SELECT count(*) FROM heap_thing WHERE organisation = %lld",
                            (long long)answer_int(log, "organizationId"))),
        0);
}

static void suspend(const struct person *who)
{
    ck_status(person_change(host, admin, who, "status", "Suspended"), 200);
}

static void delete (const struct person *who)
{
    ck_status(person_change(host, admin, who, "status", "Deleted"), 200);
}

static void demote(const struct person *who)
{
    ck_status(person_change(host, admin, who, "role", "User"), 200);
}

static int64_t lent; /* an organization */

static void take_away(const struct person *who)
{
    (void)who;
    ask(admin, 200, NULL, "PUT /api/admin/organizations/%jd {'apiUserId':0}", lent);
}

TEST(a_job_ends_with_the_right_of_its_sender)
{
    static const struct {
        const char *name;
        void (*change)(const struct person *who);
        const char *reason;
    } ways[] = {
        {"suspended", suspend, "the account that sent it is suspended or deleted"},
        {"deleted", delete, "the account that sent it is suspended or deleted"},
        {"demoted", demote,
         "the role of the account that sent it may not upload rows of this type any more"},
    };

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct person *who = person_make(host, admin, text("bulk_limits.%s", ways[i].name), NULL);
        const char *id = bulk_id(bulk_things(who, rows_of(ways[i].name, 3000, "1")));

        is_cancelled(who, id, ways[i].change, ways[i].reason);
    }
}

TEST(a_job_ends_when_its_organization_is_taken_from_its_sender)
{
    struct person *agent = person_make(host, admin, "bulk_limits.agent", "ApiUser");
    struct person *owner = person_make(host, admin, "bulk_limits.owner", NULL);
    const char *csv = rows_of("taken", 3000, "1");

    lent = owner->organization;
    ask(admin, 200, NULL, "PUT /api/admin/organizations/%jd {'apiUserId':%jd}", lent, agent->id);
    const char *id =
        bulk_id(bulk_send(host, agent, text("type=Things&organizationId=%lld", (long long)lent),
                          "x.csv", csv, strlen(csv)));

    is_cancelled(agent, id, take_away,
                 "the account that sent it does not act in this organization any more");
}

/* ---- pages and streams without the header line ---- */

TEST(a_page_of_large_rows_ends_early)
{
    char *csv = kept(malloc(2200000));
    size_t length = (size_t)sprintf(csv, "name,amount,note\n");
    const char *after = "0";
    int rows = 0, pages = 0;
    struct answer *page;

    sql_run(db, text("UPDATE bulk_usage SET bytes = -100000000 WHERE organisation = %lld",
                     (long long)m->organization));
    for (int i = 1; i <= 70; i++) {
        length += (size_t)sprintf(csv + length, "large%d,1,", i);
        memset(csv + length, 'x', 30000);
        length += 30000;
        csv[length++] = '\n';
    }
    const char *id = bulk_id(bulk_send(host, m, "type=Things", "x.csv", csv, length));

    do {
        page = ck_status(bulk_log_of(m, id, text("limit=1000&after=%s", after)), 200);
        size_t count = json_array_size(json_object_get(page->json, "rows"));

        ck_assert_uint_gt(count, 0);
        rows += (int)count;
        after =
            text("%lld",
                 (long long)json_integer_value(json_object_get(
                     json_array_get(json_object_get(page->json, "rows"), count - 1), "rowNumber")));
        pages++;
    } while (answer_header(page, "Link"));
    ck_assert_int_eq(rows, 70);
    ck_assert_int_gt(pages, 1);
}

TEST(long_names_are_cut_in_the_log)
{
    char *csv = kept(malloc(32000));
    size_t length = (size_t)sprintf(csv, "name,amount\n");

    for (int i = 0; i < 3000; i++)
        length += (size_t)sprintf(csv + length, "\u20ac");
    sprintf(csv + length, ",-1\n");
    struct answer *log = bulk_log_of(m, bulk_id(bulk_things(m, csv)), "");
    const char *name = json_string_value(
        json_object_get(json_array_get(json_object_get(log->json, "rows"), 0), "externalId"));

    ck_assert_uint_eq(strlen(name), 1020 + strlen("…"));
}

STAGE_SUITE(bulk_limits, set_up, 180)
