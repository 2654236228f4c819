/*
 * Limits of bulk uploads: jobs of an account, bytes of an organization, the rights of the sender.
 */
#include "bulk.h"
#include "meter.h"
#include "talk.h"

enum { TWINS = 20, SOON_MS = 30000, QUOTA = 300000, LONG_MS = 700 };

static void set_up(void)
{
    struct host_spec spec = bulk_spec("bulk_limits", true);

    spec.more = text("%s  bytes_per_organization: %d\n  unfinished_days: 3\n", spec.more, QUOTA);
    stage_open(&spec);
    bulk_settle("bulk_limits");
    m = person_make(host, admin, "bulk_limits.m", NULL);
}

static int64_t usage_of(const struct person *who)
{
    return sql_number(db, text("SELECT coalesce((SELECT bytes FROM bulk_usage WHERE organisation ="
                               " %jd), 0)",
                               who->organization));
}

static int64_t jobs_of(const struct person *who)
{
    return sql_number(db, text("SELECT count(*) FROM bulk_job WHERE account = %jd", who->id));
}

/* ---- one Idempotency-Key at a time ---- */

/* Each request that succeeds gets the response of the request that made the upload. */
TEST(parallel_uploads_with_one_idempotency_key_make_one_job)
{
    static const char *const headers[] = {"Idempotency-Key: bulk-twins", NULL};
    struct person *who = person_make(host, admin, "bulk_limits.twins", NULL);
    const char *csv = bulk_csv("t", 200, "1"), *made = NULL;
    struct upload_body body = {NULL, 0};
    struct call calls[TWINS];
    struct answer *answers[TWINS];

    upload_file(&body, "file", "x.csv", csv, strlen(csv));
    calls[0] = upload_call(BULK "?type=Things", who, &body);
    calls[0].headers = headers;
    for (int i = 1; i < TWINS; i++)
        calls[i] = calls[0];
    parallel(host, calls, answers, TWINS);
    for (int i = 0; i < TWINS; i++) {
        if (answers[i]->status == 201) {
            made = made ? made : answers[i]->body;
            ck_assert_str_eq(answers[i]->body, made);
        } else if (answers[i]->status != 503) {
            ck_status(answers[i], 409);
        }
    }
    ck_assert_ptr_nonnull(made);
    ck_assert_str_eq(ck_status(http_send(host, &calls[0]), 201)->body, made);
    ck_assert_int_eq(jobs_of(who), 1);
    bulk_no_orphans();
    ck_assert_int_lt(usage_of(who), 2 * (4096 + (int64_t)strlen(csv)));
}

/* A host that is killed during uploads leaves such jobs. */
TEST(uploads_cut_off_by_a_crash_do_not_count_against_the_limit)
{
    struct person *who = person_make(host, admin, "bulk_limits.crash", NULL);

    sql_run(db, text("INSERT INTO bulk_job (id, account, email, role, organisation, type, file,"
                     " status, separator, header, created_at) SELECT gen_random_uuid(), %jd, 'x',"
                     " 2, %jd, 'Things', 'x.csv', 'arriving', ',', '[\"name\"]',"
                     " now() - interval '6 minutes' FROM generate_series(1, 20)",
                     who->id, who->organization));
    ck_status(bulk_things(who, "name,amount\nq1,1\n"), 201);
}

/* ---- the quota of an organization ---- */

TEST(uploads_of_an_organization_have_a_quota_of_bytes)
{
    struct person *who = person_make(host, admin, "bulk_limits.quota", NULL);
    const char *csv = bulk_csv("q", 15000, "1"); /* 140 KB */
    const char *first = bulk_id(bulk_things(who, csv)), *second;

    /* the rows, their header as JSON, and two empty lists for each part of 500 rows */
    ck_assert_int_eq(usage_of(who), 4096 + (int64_t)strlen(csv) - (int64_t)strlen("name,amount\n") +
                                        (int64_t)strlen("[\"name\",\"amount\"]") + 30 * 4);
    second = bulk_id(bulk_things(who, csv));
    ck_error(
        bulk_things(who, csv), 409,
        "The organization may have at most 300000 bytes of bulk uploads: delete bulk uploads that "
        "have ended");
    ck_assert_int_eq(jobs_of(who), 2);
    ck_status(bulk_post(who, first, "cancel"), 200); /* canceled jobs are kept */
    ck_error(bulk_things(who, csv), 409, "The organization may have");
    ck_status(bulk_things(m, "name,amount\nz1,1\n"), 201); /* other organizations still may */
    ask(who, 200, NULL, "DELETE " BULK "/%s", first);
    ck_error(bulk_log_of(who, first, ""), 404, "");
    bulk_id(bulk_things(who, "name,amount\nz1,1\n"));
    ask(who, 200, NULL, "DELETE " BULK "/%s", second);
}

TEST(errors_of_rows_count_against_the_quota)
{
    struct person *who = person_make(host, admin, "bulk_limits.found", NULL);
    const char *csv = bulk_csv("w", 4000, "-1"); /* 35 KB, with far more bytes of problems */

    ck_error(bulk_things(who, csv), 409, "The organization may have");
    ck_assert_int_eq(usage_of(who), 0);
    bulk_no_orphans();
}

/* The usage always equals the sum over all jobs. */
TEST(quota_usage_follows_a_job_to_its_end)
{
    struct person *who = person_make(host, admin, "bulk_limits.usage", NULL);
    const char *id = bulk_id(bulk_things(who, "name,amount\nu1,1\nu2,-1\nu3,666\nu4,2\n"));
    int64_t before = usage_of(who);

    bulk_store(who, id);
    ck_assert_int_eq(usage_of(who), sql_number(db, text("SELECT sum(bytes) FROM bulk_job WHERE"
                                                        " organisation = %jd",
                                                        who->organization)));
    ck_assert_int_gt(usage_of(who), before); /* one more row failed */
    ask(who, 200, NULL, "DELETE " BULK "/%s", id);
    ck_assert_int_eq(usage_of(who), 0);
    sql_is(db, 2, "SELECT count(*) FROM heap_thing WHERE name IN ('u1', 'u4')");
}

TEST(a_running_job_cannot_be_deleted)
{
    const char *id = bulk_id(bulk_things(m, "name,amount\nd1,1\n"));

    sql_run(db, text("UPDATE bulk_job SET status = 'confirmed', confirmed_at = now(),"
                     " retry_at = now() + interval '1 hour' WHERE id = '%s'",
                     id));
    ask(m, 409, NULL, "DELETE " BULK "/%s", id);
    ck_status(bulk_post(m, id, "cancel"), 200);
}

/* ---- senders that lose the right ---- */

static bool batch_waits(int ms)
{
    return sql_number(db, text("SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
                               " WHERE l.relation = 'heap_thing'::regclass AND NOT l.granted"
                               " AND a.query_start < now() - interval '%d ms'",
                               ms)) > 0;
}

static int64_t lent; /* an organization */

/* "status Suspended" and so on; NULL: takes the organization away. */
static void change(const struct person *who, const char *key, const char *value)
{
    if (key)
        ck_status(person_change(host, admin, who, key, value), 200);
    else
        ask(admin, 200, NULL, "PUT /api/admin/organizations/%jd {'apiUserId':0}", lent);
}

/* The change happens while a batch of the job is running, which lasts longer than the cached check
 * of its sender; many batches are still to come. */
static void is_cancelled(const struct person *who, const char *id, const char *key,
                         const char *value, const char *code, const char *reason)
{
    PGconn *holder = bulk_hold("SHARE");

    ck_status(bulk_post(who, id, "confirm"), 200);
    WAIT_UNTIL(batch_waits(0), SOON_MS);
    change(who, key, value);
    WAIT_UNTIL(batch_waits(LONG_MS), SOON_MS);
    bulk_release(holder);
    struct answer *log = bulk_await(admin, id, "cancelled");

    expect_json(log->json,
                text("{'reason':'%s','reasonCode':'%s','progress':{'succeeded':0}}", reason, code));
    WAIT_UNTIL(host_logged(host, text("%s was cancelled, because %s: 0 of 3000 rows", id, reason)),
               1000);
    sql_is(db, 0, "SELECT count(*) FROM heap_thing WHERE organisation = %jd",
           answer_int(log, "organizationId"));
}

TEST(a_job_fails_when_its_sender_is_suspended_deleted_or_loses_its_role)
{
    static const char ended[] = "the account that sent it is suspended or deleted";
    static const char role[] =
        "the role of the account that sent it may not upload rows of this type any more";
    static const char *const ways[][4] = {{"status", "Suspended", "account_ended", ended},
                                          {"status", "Deleted", "account_ended", ended},
                                          {"role", "User", "role_lost", role}};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct person *who = person_make(host, admin, text("bulk_limits.%s", ways[i][1]), NULL);
        const char *csv = bulk_csv(ways[i][1], 3000, "1");

        is_cancelled(who, bulk_id(bulk_things(who, csv)), ways[i][0], ways[i][1], ways[i][2],
                     ways[i][3]);
    }
}

TEST(a_job_fails_when_its_sender_loses_the_organization)
{
    struct person *agent = person_make(host, admin, "bulk_limits.agent", "ApiUser");
    struct person *owner = person_make(host, admin, "bulk_limits.owner", NULL);

    lent = owner->organization;
    ask(admin, 200, NULL, "PUT /api/admin/organizations/%jd {'apiUserId':%jd}", lent, agent->id);
    struct answer *made = bulk_text(agent, text("type=Things&organizationId=%jd", lent),
                                    bulk_csv("taken", 3000, "1"));

    is_cancelled(agent, bulk_id(made), NULL, NULL, "organization_lost",
                 "the account that sent it does not act in this organization any more");
}

/* ---- pages and streams without the header line ---- */

TEST(a_page_of_the_upload_log_with_large_rows_is_shorter)
{
    FILE *csv = csv_begin("name,amount,note\n");
    size_t rows = 0, pages = 0;
    struct answer *page = NULL;

    sql_run(db, text("UPDATE bulk_usage SET bytes = -100000000 WHERE organisation = %jd",
                     m->organization));
    for (int i = 1; i <= 70; i++)
        fprintf(csv, "large%d,1,%s\n", i, text_repeated("x", 30000));
    const char *id = bulk_id(bulk_things(m, csv_end(csv)));

    for (; !page || answer_header(page, "Link"); pages++) {
        page = ck_status(bulk_log_of(m, id, text("limit=1000&after=%zu", rows)), 200);
        ck_assert_uint_gt(bulk_count(page), 0);
        rows += bulk_count(page);
    }
    ck_assert_uint_eq(rows, 70);
    ck_assert_uint_gt(pages, 1);
}

TEST(long_row_names_are_cut_in_the_upload_log)
{
    const char *csv = text("name,amount\n%s,-1\n", text_repeated("\u20ac", 3000));
    struct answer *log = bulk_log_of(m, bulk_id(bulk_things(m, csv)), "");

    ck_assert_uint_eq(strlen(text_in(item_of(log, "rows", 0), "externalId")), 1020 + strlen("…"));
}

STAGE_SUITE(bulk_limits, set_up, 180)
