/*
 * Running confirmed bulk uploads: once, whatever requests race on two hosts; in parallel for
 * several organizations. The progress as a live stream: from either host, to its end; the stream
 * ends with the job or its deletion, and is refused if a host has no room for more.
 * test_bulk_kills.c has kills and lost databases.
 */
#include "bulk.h"
#include "sse.h"
#include "talk.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    ROWS = 10000,
    BUSY_ROWS = 30000,
    LISTENED = 4000,
    CONFIRMS = 50,
    STREAMS = 64,
    ASKERS = 8,
    SOON_MS = 30000
};

static struct host *second; /* on the same database */
static struct person *other;

static void set_up(void)
{
    struct host_spec spec = bulk_spec("bulk_run", true);

    bulk_open("bulk_run");
    spec.name = "bulk_run_2";
    spec.database = "bulk_run";
    second = host_start(&spec);
    other = person_make(host, admin, "bulk_run.other", NULL);
}

static int64_t things_of(const char *what, const char *name)
{
    return sql_number(db, text("SELECT %s FROM heap_thing WHERE name ~ '^%s[0-9]+$'", what, name));
}

/* Checks that every row was handled once: valid ones are stored with their values. */
static void is_whole(const char *id, const char *name, int rows)
{
    int64_t sum = 0;

    for (int i = 1; i <= rows; i++)
        sum += i % 10 ? i + 1000 : 0;
    bulk_ended(bulk_log_of(admin, id, "limit=1"), rows - rows / 10, rows / 10);
    ck_assert_int_eq(things_of("count(*)", name), rows - rows / 10);
    ck_assert_int_eq(things_of("sum(amount)", name), sum);
    sql_is(db, rows / 10, "SELECT count(*) FROM bulk_finding WHERE job = '%s'", id);
    sql_is(db, rows / 10, "SELECT sum(failed) FROM bulk_part WHERE job = '%s'", id);
}

static void await(const char *sql, int64_t least)
{
    WAIT_UNTIL_MSG(sql_number(db, sql) >= least, SOON_MS, "%s: not %lld", sql, (long long)least);
}

static int64_t cursor_of(const char *id)
{
    return sql_number(db, text("SELECT cursor FROM bulk_job WHERE id = '%s'", id));
}

/* Sends the requests, to be sent to both hosts, at once; returns how many succeed. The others must
 * be conflicts. */
static int at_once(const char *id, const char *const *what, int count, int first)
{
    struct call calls[PARALLEL_MAX];
    struct answer *answers[PARALLEL_MAX];
    const struct host *hosts[] = {host, second};
    int well = 0;

    for (int i = 0; i < count; i++) {
        calls[i] = call_by(m, "POST " BULK "/%s/%s", id, what[i % 2]);
        calls[i].host = hosts[(i + first) % 2];
    }
    parallel(host, calls, answers, count);
    for (int i = 0; i < count; i++) {
        well += answers[i]->status == 200;
        if (answers[i]->status != 200)
            ck_status(answers[i], 409);
    }
    return well;
}

TEST(fifty_parallel_confirms_on_two_hosts_start_one_run)
{
    const char *id = bulk_upload(m, "race", 2000);

    ck_assert_int_eq(at_once(id, (const char *const[]){"confirm", "confirm"}, CONFIRMS, 0), 1);
    bulk_await(m, id, "finished");
    is_whole(id, "race", 2000);
}

TEST(parallel_cancel_and_confirm_have_one_outcome)
{
    for (int i = 0; i < 10; i++) {
        const char *name = text("cancel%c", 'a' + i), *id = bulk_upload(m, name, 300);

        ck_assert_int_ge(at_once(id, (const char *const[]){"confirm", "cancel"}, 2, i), 1);
        struct answer *log = bulk_log_of(m, id, "status=success&limit=1000");

        /* the job may have finished before the cancellation came; otherwise it must be
         * canceled */
        if (strcmp(answer_text(log, "status"), "finished") != 0)
            ck_assert_str_eq(answer_text(log, "status"), "cancelled");
        int64_t stored = things_of("count(*)", name);

        ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), stored);
        ck_assert_uint_eq(bulk_count(log), (size_t)stored);
    }
}

static int64_t rows_of(const char *id, const char *status)
{
    const struct answer *page = NULL;
    size_t count = 0;
    long after = 0;

    while (!page || answer_header(page, "Link")) {
        page = ck_status(
            bulk_log_of(admin, id, text("status=%s&limit=1000&after=%ld", status, after)), 200);
        count += bulk_count(page);
        if (bulk_count(page))
            after = strtol(bulk_row(page, bulk_count(page) - 1), NULL, 10);
    }
    return (int64_t)count;
}

/* Starts the upload's run and waits until a transaction that goes beyond its middle is about to
 * end; SQL_GATE_OPEN lets it continue. */
static void run_half(const char *id)
{
    sql_trigger(db,
                text("BEFORE UPDATE ON bulk_job FOR EACH ROW WHEN (NEW.id = '%s' AND NEW.cursor >"
                     " %d)",
                     id, ROWS / 2),
                SQL_GATE);
    sql_run(db, SQL_GATE_SHUT);
    ck_status(bulk_post(m, id, "confirm"), 200);
    sql_soon(db, SQL_GATE_WAITS);
}

/* If a run is canceled in the middle, stored rows stay, no more are stored, and the rest is
 * canceled except for the rows that failed the check. */
TEST(a_run_can_be_cancelled_in_the_middle)
{
    const char *id = bulk_upload(m, "middle", ROWS);

    run_half(id);
    const struct call cancel = call_by(m, "POST " BULK "/%s/cancel", id);
    struct pending_call *pending = call_begin(host, &cancel);

    sql_soon(db, SQL_LOCK_WAITS " AND wait_event <> 'advisory'");
    sql_run(db, SQL_GATE_OPEN);
    struct answer *ended = ck_status(call_end(pending), 200);
    int64_t stored = bulk_number(ended, "progress", "succeeded");
    int64_t cursor = cursor_of(id), rest = ROWS - ROWS / 10 - stored;

    ck_assert_int_lt(cursor, ROWS);
    ck_assert_int_eq(things_of("count(*)", "middle"), stored);
    expect_json(ended->json, text("{'progress':{'failed':%d,'done':%jd}}", ROWS / 10, ROWS - rest));
    ck_assert_int_eq(rows_of(id, "success"), stored);
    ck_assert_int_eq(rows_of(id, "failed"), ROWS / 10);
    ck_assert_int_eq(rows_of(id, "cancelled"), rest);
    ck_assert_str_eq(bulk_row(bulk_log_of(m, id, "status=cancelled"), 0),
                     text("%jd middle%jd cancelled", cursor + 1, cursor + 1));
    const char *first = text("\r\nmiddle%d,%d,not stored: the bulk upload was cancelled\r\n",
                             ROWS - 1, ROWS - 1 + 1000);
    struct answer *failed = ask(m, 200, first, "GET " BULK "/%s/failed.csv", id);

    ck_assert_uint_eq(text_lines(failed->body), (size_t)(1 + ROWS / 10 + rest));
    ck_assert_ptr_nonnull(strstr(failed->body, text("\r\nmiddle%d,%d,amount: must", ROWS, -ROWS)));
    sql_run(db, SQL_TRIGGER_DROP);
}

/* The job confirmed later does not wait for the other's end. */
TEST(jobs_of_two_organizations_run_in_parallel)
{
    const char *large = bulk_upload(m, "large", ROWS), *small = bulk_upload(other, "small", 200);

    run_half(large);
    ck_status(bulk_post(other, small, "confirm"), 200);
    bulk_await(other, small, "finished");
    ck_assert_int_lt(cursor_of(large), ROWS);
    sql_run(db, SQL_GATE_OPEN);
    bulk_await(m, large, "finished");
    sql_run(db, SQL_TRIGGER_DROP);
    is_whole(large, "large", ROWS);
    is_whole(small, "small", 200);
}

static bool logs_have(const char *line)
{
    return strstr(file_text(host->log), line) || strstr(file_text(second->log), line);
}

/* ---- while other requests are served ---- */

static atomic_bool quiet;

static void *ask_often(void *arg)
{
    const struct host *to = arg;

    while (!atomic_load(&quiet))
        http(to, "GET", "/api/auth/me", m->token, NULL);
    return NULL;
}

/* The transactions of 500 rows store 450. */
static bool is_in_small_batches(const char *name)
{
    return sql_number(db, text("SELECT count(*) FROM (SELECT FROM heap_thing"
                               " WHERE name ~ '^%s[0-9]+$' GROUP BY xmin::text"
                               " HAVING count(*) <= 50) batch",
                               name)) > 0;
}

/* Stores a thousand rows while no requests are sent. */
static bool is_in_large_batches(int *tries)
{
    const char *name = text("calm%c%c", 'a' + *tries / 26, 'a' + *tries % 26);
    const char *id = bulk_upload(m, name, 1000);

    ++*tries;
    ck_status(bulk_post(m, id, "confirm"), 200);
    await(text("SELECT count(*) FROM bulk_job WHERE id = '%s' AND status = 'finished'", id), 1);
    return things_of("count(DISTINCT xmin::text)", name) == 2;
}

TEST(batches_are_small_while_other_requests_are_served_and_large_otherwise)
{
    static char name[] = "busy";
    const char *id = bulk_upload(m, name, BUSY_ROWS);
    pthread_t askers[ASKERS];
    int tries = 0;

    for (int i = 0; i < ASKERS; i++)
        ck_assert_int_eq(pthread_create(&askers[i], NULL, ask_often, i % 2 ? host : second), 0);
    ck_status(bulk_post(m, id, "confirm"), 200);
    WAIT_UNTIL(is_in_small_batches(name), SOON_MS);
    ck_status(bulk_post(m, id, "cancel"), 200);
    atomic_store(&quiet, true);
    for (int i = 0; i < ASKERS; i++)
        pthread_join(askers[i], NULL);
    WAIT_UNTIL(is_in_large_batches(&tries), SOON_MS / 2);
}

TEST(a_run_is_logged)
{
    const char *id = bulk_upload(m, "told", 20);

    bulk_store(m, id);
    WAIT_UNTIL(logs_have(text("bulk upload %s begins: 20 rows of type Things", id)), SOON_MS);
    WAIT_UNTIL(logs_have(text("bulk upload %s has finished: 18 rows were stored, 2 failed", id)),
               SOON_MS);
}

static void make_older(int days, const char *id)
{
    sql_run(db, text("UPDATE bulk_job SET created_at = created_at - interval '%d days',"
                     " confirmed_at = confirmed_at - interval '%d days',"
                     " ended_at = ended_at - interval '%d days' WHERE id = '%s'",
                     days, days, days, id));
}

/* Sweeps jobs that finished 91 days ago, jobs that were canceled or sent without a confirmation 8
 * days ago, and an upload that died; keeps jobs that finished recently or wait to run. */
TEST(old_jobs_are_deleted_by_the_sweep)
{
    struct host_spec spec = bulk_spec("bulk_swept", true);

    spec.keep_port = true;
    host = host_start(&spec);
    bulk_settle(spec.name);
    PQfinish(db);
    db = database_connect(the_postgres, spec.name);
    admin = admin_of(host);
    m = person_make(host, admin, "bulk_swept.m", NULL);
    const char *old = bulk_upload(m, "old", 20), *young = bulk_upload(m, "young", 20);
    const char *late = bulk_upload(m, "late", 20), *never = bulk_upload(m, "never", 20);
    const char *waiting = bulk_upload(m, "waiting", 20), *dropped = bulk_upload(m, "dropped", 20);

    bulk_store(m, old);
    bulk_store(m, late);
    ck_status(bulk_post(m, dropped, "cancel"), 200);
    make_older(91, old);
    make_older(8, never);
    make_older(8, dropped);
    sql_run(db, text("UPDATE bulk_job SET created_at = created_at - interval '99 days'"
                     " WHERE id = '%s'",
                     late));
    make_older(99, waiting);
    sql_run(db, text("UPDATE bulk_job SET type = 'Gone', status = 'confirmed',"
                     " confirmed_at = now() - interval '91 days' WHERE id = '%s'",
                     waiting));
    sql_run(db, text("INSERT INTO bulk_job (id, account, email, role, organisation, type, file,"
                     " status, separator, header, created_at) SELECT gen_random_uuid(), account,"
                     " email, role, organisation, type, file, 'arriving', separator, header,"
                     " now() - interval '2 hours' FROM bulk_job WHERE id = '%s'",
                     old));
    host_stop(host);
    ck_assert(host_run(host)); /* the sweep's first run follows */
    await(text("SELECT count(*) FROM (SELECT 1 WHERE NOT EXISTS (SELECT FROM bulk_job WHERE"
               " id IN ('%s', '%s', '%s') OR status = 'arriving')) s",
               old, never, dropped),
          1);
    sql_is(db, 0,
           "SELECT (SELECT count(*) FROM bulk_part WHERE job IN ('%s', '%s'))"
           " + (SELECT count(*) FROM bulk_finding WHERE job IN ('%s', '%s'))",
           old, never, old, never);
    ck_status(bulk_log_of(m, young, ""), 200);
    ck_assert_str_eq(bulk_row(bulk_log_of(m, late, ""), 0), "1 late1 success");
    ck_assert_str_eq(bulk_row(bulk_log_of(m, waiting, ""), 0), "1 - pending");
}

/* Begins an upload, and waits until the check of its rows waits for bulk_release(). */
static struct pending_call *send_waiting(void)
{
    static struct call call;
    struct upload_body body = {NULL, 0};

    upload_file(&body, "file", "x.csv", "name,amount\nswept1,1\nswept2,2\n", 30);
    call = upload_call(BULK "?type=Things", m, &body);
    struct pending_call *sending = call_begin(host, &call);

    sql_soon(db, "SELECT count(*) FROM pg_locks WHERE relation = 'heap_thing'::regclass"
                 " AND NOT granted");
    return sending;
}

/* The test deletes the job as the sweep does if an upload takes longer than an hour. */
TEST(an_upload_deleted_by_the_sweep_while_it_arrives_is_refused)
{
    PGconn *holder = bulk_hold("ACCESS EXCLUSIVE");
    struct pending_call *sending = send_waiting();

    sql_run(db, "DELETE FROM bulk_job WHERE status = 'arriving'");
    bulk_release(holder);
    ck_error(call_end(sending), 503,
             "The bulk upload took too long and was removed: send it again");
    bulk_no_orphans();
}

/* The upload takes so long that later uploads do not count it. */
TEST(a_slow_upload_does_not_exceed_the_limit_of_the_account)
{
    PGconn *holder = bulk_hold("ACCESS EXCLUSIVE");
    struct pending_call *sending = send_waiting();

    sql_run(db, "INSERT INTO bulk_job (id, account, email, role, organisation, type, file, status,"
                " separator, header, created_at) SELECT gen_random_uuid(), account, email, role,"
                " organisation, type, 'later.csv', 'created', separator, header, now()"
                " FROM bulk_job, generate_series(1, 20) WHERE status = 'arriving'");
    bulk_release(holder);
    ck_error(call_end(sending), 409, "You have 20 bulk uploads that have not ended");
    bulk_no_orphans();
    sql_run(db, "DELETE FROM bulk_job WHERE file = 'later.csv'");
}

/* ---- the progress as a live stream ---- */

static struct sse *listen_to(const struct host *on, const struct person *who, const char *id)
{
    return sse_open_at(on, text(BULK "/%s/stream", id), who->token, NULL, 0);
}

static int64_t done_of(const struct sse_event *event)
{
    return json_integer_value(json_object_get(json_object_get(event->json, "progress"), "done"));
}

static const char *status_of(const struct sse_event *event)
{
    return json_string_value(json_object_get(event->json, "status"));
}

/* Reads events up to the last one and returns it; the number of finished rows never decreases. */
static struct sse_event *to_the_end(struct sse *sse)
{
    struct sse_event *event;
    int64_t done = -1;

    while ((event = sse_next(sse, SOON_MS)) != NULL) {
        ck_assert_int_ge(done_of(event), done);
        done = done_of(event);
        if (!strcmp(event->name, "ended"))
            return event;
        ck_assert_str_eq(event->name, "progress");
    }
    ck_abort_msg("the stream ended without a last event, %jd rows were done", done);
    return NULL;
}

TEST(the_progress_stream_works_on_either_host_and_ends)
{
    const char *id = bulk_upload(m, "either", LISTENED);
    struct sse *one = listen_to(host, m, id), *two = listen_to(second, m, id);

    ck_assert_int_eq(one->status, 200);
    ck_assert_int_eq(two->status, 200);
    ck_assert_ptr_nonnull(strstr(one->headers, "text/event-stream"));
    struct sse_event *first = sse_next(one, SOON_MS);

    ck_assert_str_eq(status_of(first), "created");
    ck_assert_int_eq(done_of(first), 0);
    ck_status(bulk_post(m, id, "confirm"), 200);
    struct sse_event *last = to_the_end(one);

    ck_assert_str_eq(status_of(last), "finished");
    ck_assert_int_eq(done_of(last), LISTENED);
    ck_assert_int_eq(done_of(to_the_end(two)), LISTENED);
    ck_assert(sse_ends(one, SOON_MS));
    ck_assert(one->complete);
}

TEST(a_progress_stream_of_a_finished_job_ends_at_once)
{
    const char *id = bulk_upload(m, "late", 10);

    bulk_store(m, id);
    struct sse *sse = listen_to(second, m, id);

    ck_assert_str_eq(status_of(to_the_end(sse)), "finished");
    ck_assert(sse_ends(sse, SOON_MS));
}

TEST(cancelling_or_deleting_a_job_ends_its_progress_stream)
{
    const char *cancelled = bulk_upload(m, "cancelled", 10),
               *deleted = bulk_upload(m, "deleted", 10);
    struct sse *one = listen_to(second, m, cancelled), *two = listen_to(second, m, deleted);

    ck_status(bulk_post(m, cancelled, "cancel"), 200);
    ck_assert_str_eq(status_of(to_the_end(one)), "cancelled");
    ask(m, 200, NULL, "DELETE " BULK "/%s", deleted);
    ck_assert_str_eq(status_of(sse_next(two, SOON_MS)), "created");
    ck_assert_ptr_null(sse_next(two, SOON_MS)); /* the job has not changed */
    ck_assert(two->ended);
}

static bool has_room(const char *id)
{
    struct sse *sse = listen_to(host, m, id);
    bool open = sse->status == 200;

    sse_close(sse);
    return open;
}

TEST(progress_streams_are_limited_per_account)
{
    const char *id = bulk_upload(m, "many", 10);
    struct sse *all[STREAMS];

    for (int i = 0; i < STREAMS; i++) {
        all[i] = listen_to(host, m, id);
        ck_assert_int_eq(all[i]->status, 200);
    }
    struct answer *more = http(host, "GET", text(BULK "/%s/stream", id), m->token, NULL);

    ck_error(more, 429, "Too many open streams for this account");
    ck_assert_ptr_nonnull(answer_header(more, "Retry-After"));
    ck_assert_int_eq(listen_to(host, admin, id)->status, 200);
    for (int i = 0; i < STREAMS; i++)
        sse_close(all[i]);
    WAIT_UNTIL(has_room(id), SOON_MS);
}

SUITE(bulk_run, .before_all = set_up, .before_each = stage_connect, .after_each = stage_disconnect,
      .timeout_s = 240)
