/*
 * Running confirmed bulk uploads: once, whatever requests race on two hosts; in parallel for
 * several organizations. test_bulk_kills.c has kills and lost databases.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bulk.h"
#include "suite.h"
#include "suites.h"

enum { ROWS = 10000, BUSY_ROWS = 30000, CONFIRMS = 50, SOON_MS = 30000 };

static struct host *second; /* on the same database */
static struct person *other;

/* Starts a separate host on a separate database. */
static void own_host(const char *name)
{
    struct host_spec spec = bulk_spec(name, true);

    spec.database = database_make(the_postgres, name);
    spec.keep_port = true;
    host = host_start(&spec);
    bulk_settle(name);
    PQfinish(db);
    db = database_connect(the_postgres, name);
    admin = admin_of(host);
    m = person_make(host, admin, text("%s.m", name), NULL);
}

static void set_up(void)
{
    struct host_spec spec = bulk_spec("bulk_run", true);

    bulk_open("bulk_run");
    spec.name = "bulk_run_2";
    spec.database = "bulk_run";
    second = host_start(&spec);
    other = person_make(host, admin, "bulk_run.other", NULL);
}

/* Uploads things of a name with amounts from 1 on; every tenth is wrong. */
static const char *upload_of(const struct person *who, const char *name, int rows)
{
    size_t room = (size_t)rows * 40 + 64, length = 0;
    char *csv = kept(malloc(room));

    length += (size_t)snprintf(csv, room, "name,amount\n");
    for (int i = 1; i <= rows; i++)
        length += (size_t)snprintf(csv + length, room - length, "%s%d,%d\n", name, i,
                                   i % 10 ? i + 1000 : -i);
    return bulk_id(bulk_send(host, who, "type=Things", "x.csv", csv, length));
}

/* Checks that every row was handled once: valid ones are stored with their values. */
static void is_whole(const char *id, const char *name, int rows)
{
    struct answer *log = bulk_log_of(admin, id, "limit=1");
    int64_t sum = 0;

    for (int i = 1; i <= rows; i++)
        sum += i % 10 ? i + 1000 : 0;
    ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), rows - rows / 10);
    ck_assert_int_eq(bulk_number(log, "progress", "failed"), rows / 10);
    ck_assert_int_eq(
        sql_number(db, text("SELECT count(*) FROM heap_thing WHERE name ~ '^%s[0-9]+$'", name)),
        rows - rows / 10);
    ck_assert_int_eq(
        sql_number(db, text("SELECT sum(amount) FROM heap_thing WHERE name ~ '^%s[0-9]+$'", name)),
        sum);
    ck_assert_int_eq(sql_number(db, text("SELECT count(*) FROM bulk_finding WHERE job = '%s'", id)),
                     rows / 10);
    ck_assert_int_eq(sql_number(db, text("SELECT sum(failed) FROM bulk_part WHERE job = '%s'", id)),
                     rows / 10);
}

struct sought {
    const char *sql;
    int64_t least;
};

static bool reaches(void *arg)
{
    const struct sought *sought = arg;

    return sql_number(db, sought->sql) >= sought->least;
}

static void await(const char *sql, int64_t least)
{
    struct sought sought = {sql, least};

    ck_assert_msg(wait_until(reaches, &sought, SOON_MS), "%s: not %lld", sql, (long long)least);
}

static int64_t cursor_of(const char *id)
{
    return sql_number(db, text("SELECT cursor FROM bulk_job WHERE id = '%s'", id));
}

struct confirm {
    const struct host *to;
    const char *id, *what;
    long status;
};

static void *confirm(void *arg)
{
    struct confirm *one = arg;

    one->status =
        http(one->to, "POST", text(BULK "/%s/%s", one->id, one->what), m->token, NULL)->status;
    return NULL;
}

static size_t at_once(const struct confirm *given, size_t count, long status)
{
    struct confirm *all = kept(calloc(count, sizeof *all));
    pthread_t threads[CONFIRMS];
    size_t seen = 0;

    for (size_t i = 0; i < count; i++) {
        all[i] = given[i];
        ck_assert_int_eq(pthread_create(&threads[i], NULL, confirm, &all[i]), 0);
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_msg(all[i].status == 200 || all[i].status == 409, "%ld", all[i].status);
        seen += all[i].status == status;
    }
    return seen;
}

/* C05, acceptance 3 */
TEST(fifty_confirms_at_once_on_two_hosts_are_one_run)
{
    const char *id = upload_of(m, "race", 2000);
    struct confirm all[CONFIRMS];

    for (size_t i = 0; i < CONFIRMS; i++)
        all[i] = (struct confirm){i % 2 ? second : host, id, "confirm", 0};
    ck_assert_uint_eq(at_once(all, CONFIRMS, 200), 1);
    bulk_await(m, id, "finished");
    is_whole(id, "race", 2000);
}

TEST(cancel_and_confirm_at_once_have_one_outcome)
{
    for (int i = 0; i < 10; i++) {
        const char *name = text("cancel%c", 'a' + i), *id = upload_of(m, name, 300);
        struct confirm both[2] = {{i % 2 ? second : host, id, "confirm", 0},
                                  {i % 2 ? host : second, id, "cancel", 0}};

        size_t went_well = at_once(both, 2, 200);
        struct answer *log = bulk_log_of(m, id, "status=success&limit=1000");

        /* it was confirmed and finished before the cancellation came; otherwise it must be
         * canceled */
        if (strcmp(answer_text(log, "status"), "finished") != 0)
            ck_assert_str_eq(answer_text(log, "status"), "cancelled");
        ck_assert_uint_ge(went_well, 1);
        int64_t stored =
            sql_number(db, text("SELECT count(*) FROM heap_thing WHERE name ~ '^%s[0-9]+$'", name));

        ck_assert_int_eq(bulk_number(log, "progress", "succeeded"), stored);
        ck_assert_uint_eq(json_array_size(json_object_get(log->json, "rows")), (size_t)stored);
    }
}

static int64_t rows_of(const char *id, const char *status)
{
    const struct answer *log =
        ck_status(bulk_log_of(admin, id, text("status=%s&limit=1000", status)), 200);
    int64_t count = (int64_t)json_array_size(json_object_get(log->json, "rows"));
    const struct answer *more = log;

    while (answer_header(more, "Link")) {
        const json_t *rows = json_object_get(more->json, "rows");
        const json_t *last = json_array_get(rows, json_array_size(rows) - 1);

        more = ck_status(
            bulk_log_of(admin, id,
                        text("status=%s&limit=1000&after=%lld", status,
                             (long long)json_integer_value(json_object_get(last, "rowNumber")))),
            200);
        count += (int64_t)json_array_size(json_object_get(more->json, "rows"));
    }
    return count;
}

static size_t lines_of(const char *body)
{
    size_t lines = 0;

    for (; *body; body++)
        lines += *body == '\n';
    return lines;
}

/* If a run is canceled in the middle, stored rows stay, no more are stored, and the rest is
 * canceled except for the rows that failed the check. */
TEST(a_run_is_cancelled_in_the_middle)
{
    const char *id = upload_of(m, "middle", ROWS);

    ck_status(bulk_post(m, id, "confirm"), 200);
    await(text("SELECT cursor FROM bulk_job WHERE id = '%s'", id), 100);
    struct answer *ended = ck_status(bulk_post(m, id, "cancel"), 200);
    int64_t stored = bulk_number(ended, "progress", "succeeded");
    int64_t cursor = cursor_of(id), rest = ROWS - ROWS / 10 - stored;

    ck_assert_int_lt(cursor, ROWS);
    ck_assert_int_eq(
        sql_number(db, "SELECT count(*) FROM heap_thing WHERE name ~ '^middle[0-9]+$'"), stored);
    ck_assert_int_eq(bulk_number(ended, "progress", "failed"), ROWS / 10);
    ck_assert_int_eq(bulk_number(ended, "progress", "done"), ROWS - rest);
    ck_assert_int_eq(rows_of(id, "success"), stored);
    ck_assert_int_eq(rows_of(id, "failed"), ROWS / 10);
    ck_assert_int_eq(rows_of(id, "cancelled"), rest);
    ck_assert_str_eq(
        bulk_row(bulk_log_of(m, id, "status=cancelled"), 0),
        text("%lld middle%lld cancelled", (long long)cursor + 1, (long long)cursor + 1));
    const struct answer *failed = ask(m, 200, NULL, "GET " BULK "/%s/failed.csv", id);

    ck_assert_uint_eq(lines_of(failed->body), (size_t)(1 + ROWS / 10 + rest));
    ck_assert_ptr_nonnull(
        strstr(failed->body, text("\r\nmiddle%d,%d,not stored: the bulk upload was cancelled\r\n",
                                  ROWS - 1, ROWS - 1 + 1000)));
    ck_assert_ptr_nonnull(strstr(failed->body, text("\r\nmiddle%d,%d,amount: must", ROWS, -ROWS)));
}

/* The job confirmed later does not wait for the other's end. */
TEST(jobs_of_two_organizations_run_side_by_side)
{
    const char *large = upload_of(m, "large", ROWS), *small = upload_of(other, "small", 200);

    ck_status(bulk_post(m, large, "confirm"), 200);
    await(text("SELECT cursor FROM bulk_job WHERE id = '%s'", large), 50);
    ck_status(bulk_post(other, small, "confirm"), 200);
    bulk_await(other, small, "finished");
    ck_assert_int_lt(cursor_of(large), ROWS);
    bulk_await(m, large, "finished");
    is_whole(large, "large", ROWS);
    is_whole(small, "small", 200);
}

static bool logs_have(void *line)
{
    return strstr(file_text(host->log), line) || strstr(file_text(second->log), line);
}

/* ---- while other requests are served ---- */

/* Returns how many transactions have stored things of a name. */
static int64_t transactions(const char *name)
{
    return sql_number(db, text("SELECT count(DISTINCT xmin::text) FROM heap_thing"
                               " WHERE name ~ '^%s[0-9]+$'",
                               name));
}

/* The wait itself keeps sending requests; the traces of small transactions remain. */
static bool is_in_small_batches(void *name)
{
    ask(m, 200, NULL, "GET " BULK "?limit=1");
    return sql_number(db, text("SELECT count(*) FROM (SELECT FROM heap_thing"
                               " WHERE name ~ '^%s[0-9]+$' GROUP BY xmin::text"
                               " HAVING count(*) < 500) batch",
                               (const char *)name)) > 0;
}

/* Stores a thousand rows while no requests are sent. */
static bool is_in_large_batches(void *arg)
{
    int *tries = arg;
    const char *name = text("calm%c%c", 'a' + *tries / 26, 'a' + *tries % 26);
    const char *id = upload_of(m, name, 1000);

    ++*tries;
    ck_status(bulk_post(m, id, "confirm"), 200);
    await(text("SELECT count(*) FROM bulk_job WHERE id = '%s' AND status = 'finished'", id), 1);
    return transactions(name) == 2;
}

TEST(batches_are_small_while_others_ask_and_large_once_they_have_left)
{
    static char name[] = "busy";
    const char *id = upload_of(m, name, BUSY_ROWS);
    int tries = 0;

    ck_status(bulk_post(m, id, "confirm"), 200);
    ck_assert(wait_until(is_in_small_batches, name, SOON_MS));
    ck_status(bulk_post(m, id, "cancel"), 200);
    ck_assert(wait_until(is_in_large_batches, &tries, SOON_MS / 2));
}

TEST(a_run_is_told_in_the_log)
{
    const char *id = upload_of(m, "told", 20);

    bulk_store(m, id);
    ck_assert(
        wait_until(logs_have, text("bulk upload %s begins: 20 rows of type Things", id), SOON_MS));
    ck_assert(wait_until(logs_have,
                         text("bulk upload %s has finished: 18 rows were stored, 2 failed", id),
                         SOON_MS));
}

/* Sweeps jobs that finished 91 days ago, jobs that were canceled or sent without a confirmation 8
 * days ago, and an upload that died; keeps jobs that finished recently or wait to run. */
TEST(what_is_old_is_swept_away)
{
    own_host("bulk_swept");
    const char *old = upload_of(m, "old", 20), *young = upload_of(m, "young", 20);
    const char *late = upload_of(m, "late", 20), *never = upload_of(m, "never", 20);
    const char *waiting = upload_of(m, "waiting", 20), *dropped = upload_of(m, "dropped", 20);

    bulk_store(m, old);
    bulk_store(m, late);
    ck_status(bulk_post(m, dropped, "cancel"), 200);
    sql_run(db, text("UPDATE bulk_job SET created_at = created_at - interval '91 days',"
                     " confirmed_at = confirmed_at - interval '91 days',"
                     " ended_at = ended_at - interval '91 days' WHERE id = '%s'",
                     old));
    sql_run(db, text("UPDATE bulk_job SET created_at = created_at - interval '8 days',"
                     " ended_at = ended_at - interval '8 days' WHERE id IN ('%s', '%s')",
                     never, dropped));
    sql_run(db, text("UPDATE bulk_job SET created_at = created_at - interval '99 days'"
                     " WHERE id = '%s'",
                     late));
    sql_run(db, text("UPDATE bulk_job SET created_at = created_at - interval '99 days',"
                     " type = 'Gone', status = 'confirmed',"
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
    ck_assert_int_eq(
        sql_number(db, text("SELECT (SELECT count(*) FROM bulk_part WHERE job IN ('%s', '%s'))"
                            " + (SELECT count(*) FROM bulk_finding WHERE job IN ('%s', '%s'))",
                            old, never, old, never)),
        0);
    ck_status(bulk_log_of(m, young, ""), 200);
    ck_assert_str_eq(bulk_row(ck_status(bulk_log_of(m, late, ""), 200), 0), "1 late1 success");
    ck_assert_str_eq(bulk_row(ck_status(bulk_log_of(m, waiting, ""), 200), 0), "1 - pending");
    host_stop(host);
}

struct sending {
    pthread_t thread;
    struct answer *answer;
};

static void *send_things(void *arg)
{
    ((struct sending *)arg)->answer = bulk_things(m, "name,amount\nswept1,1\nswept2,2\n");
    return NULL;
}

static bool check_waits(void *arg)
{
    (void)arg;
    return sql_number(db, "SELECT count(*) FROM pg_locks WHERE relation = 'heap_thing'::regclass"
                          " AND NOT granted") > 0;
}

/* As the sweep does it with one that arrives for longer than an hour. */
TEST(an_upload_that_was_swept_away_is_not_said_to_be_there)
{
    PGconn *holder = database_connect(the_postgres, "bulk_run");
    struct sending sending;

    sql_run(holder, "BEGIN");
    sql_run(holder, "LOCK TABLE heap_thing IN ACCESS EXCLUSIVE MODE");
    ck_assert_int_eq(pthread_create(&sending.thread, NULL, send_things, &sending), 0);
    ck_assert(wait_until(check_waits, NULL, SOON_MS));
    sql_run(db, "DELETE FROM bulk_job WHERE status = 'arriving'");
    sql_run(holder, "ROLLBACK");
    pthread_join(sending.thread, NULL);
    ck_error(sending.answer, 503, "The bulk upload took too long and was removed: send it again");
    ck_assert_int_eq(sql_number(db, "SELECT count(*) FROM bulk_part p WHERE NOT EXISTS"
                                    " (SELECT FROM bulk_job j WHERE j.id = p.job)"),
                     0);
    PQfinish(holder);
}

static void tear_down(void)
{
    host_stop(second);
    host_stop(host);
}

static void connect_db(void)
{
    db = database_connect(the_postgres, "bulk_run");
}

static void disconnect_db(void)
{
    PQfinish(db);
}

SUITE(bulk_run, .before_all = set_up, .after_all = tear_down, .before_each = connect_db,
      .after_each = disconnect_db, .timeout_s = 240)
