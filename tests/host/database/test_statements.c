/* Statements of modules: those that are not allowed, the log lines of those that fail, and the
 * settings of the connections, whatever the database, its URL and the environment say. */
#include "poke.h"
#include "stage.h"

#define ONE_OF_EACH "  read_connections: 1\n  unit_connections: 1\n  transaction_connections: 1\n"

/* With one connection, a request uses the connection on which the previous statement was sent. */
static void set_up(void)
{
    host = poke_start(&(struct host_spec){.name = "statements",
                                          .db = ONE_OF_EACH "  statement_timeout: 60000\n"});
}

static int64_t rows(const char *what)
{
    return sql_number(db, text("SELECT count(*) FROM poke WHERE what = '%s'", what));
}

/* The ways in which the module sends a statement, and their status if it succeeds. */
static const struct {
    const char *method, *way;
    long good;
} sent[] = {{"GET", "query", 200}, {"POST", "unit", 201}, {"POST", "transaction", 201}};

static void send_each_way(const struct host *on, const char *name, long query, long write)
{
    for (int i = 0; i < 3; i++)
        poke(on, sent[i].method, text("%s/%s", sent[i].way, name), i ? write : query);
}

/* They are noticed after they have run: some have committed rows of the module. */
static const struct {
    const char *name, *sqlstate;
    int rows;
} not_allowed[] = {
    {"begin", "25000", 0},  {"comment", "25000", 0},  {"savepoint", "", 0},
    {"listen", "25000", 2}, {"discard", "", 0},       {"two", "42601", 0},
    {"commit", "25000", 3}, {"rollback", "25000", 1},
};

TEST_EACH(transaction_control_in_a_statement_is_an_error, COUNT(not_allowed))
{
    const char *name = not_allowed[_i].name;
    const char *state = text("sqlstate=%s", not_allowed[_i].sqlstate);
    const char *writes = text("after-%s", name);

    send_each_way(host, name, 500, 500);
    ck_assert_int_eq(rows(name), not_allowed[_i].rows);
    for (int i = 0; i < 8; i++) {
        poke(host, "POST", text("write/%s", writes), 201);
        poke(host, "POST", "unit/one", 201);
        poke(host, "POST", "transaction/one", 201);
        poke(host, "GET", "query/calm", 200);
    }
    ck_assert_int_eq(rows(writes), 8);
    for (int i = 0; i < 3; i++)
        host_logs_line(host, 0, "a statement failed", "level=error", "module=poke",
                       text("/api/poke/%s/:name\"", sent[i].way), state);
}

TEST(set_is_an_error_outside_a_checked_out_transaction)
{
    poke(host, "GET", "query/set", 500);
    poke(host, "POST", "unit/set", 500);
    poke(host, "POST", "unit/set-local", 500);
    poke(host, "POST", "transaction/set-local", 201);
    poke(host, "POST", "transaction/set?refuse=1", 409);
    poke(host, "POST", "transaction/set", 500); /* the next statement finds no table */
    ck_assert_ptr_null(
        strstr(answer_text(poke(host, "GET", "query/styles", 200), "cell"), "nowhere"));
    poke(host, "POST", "unit/one", 201);
    poke(host, "POST", "transaction/one", 201);
}

TEST(statements_that_only_look_like_transaction_control_are_sent)
{
    send_each_way(host, "with", 200, 201);
    poke(host, "GET", "query/empty", 200);
    ck_assert_int_eq(rows("with"), 4);
}

TEST(a_failed_statement_is_logged_with_its_route)
{
    poke(host, "GET", "query/divide", 500);
    host_logs_line(host, 0, "a statement failed", "module=poke",
                   "route=\"GET /api/poke/query/:name\"",
                   "statement=\"SELECT 1 / 0 /* a division, and a comment that exceeds the length "
                   "of a log's fi\"",
                   "sqlstate=22012");
    poke(host, "POST", "unit/missing", 500);
    host_logs_line(host, 0, "a statement failed", "level=error", "module=poke",
                   "route=\"POST /api/poke/unit/:name\"",
                   "statement=\"SELECT * FROM poke_missing\"", "sqlstate=42P01");
    poke(host, "POST", "raise", 201);
    host_logs_line(host, 0, "a statement failed", "module=poke", "hook=poke.poked",
                   "statement=\"SELECT 1 / 0");
}

/* These are mistakes of the module, however the statement is sent; it is sent once, and the
 * connection stays. */
static const struct {
    const char *name, *sqlstate;
} mistakes[] = {
    {"missing", "42P01"},      {"missing-column", "42703"}, {"missing-function", "42883"},
    {"missing-type", "42704"}, {"missing-schema", "3F000"}, {"unsupported", "0A000"},
    {"broken", "42601"}};

TEST_EACH(a_wrong_statement_is_500_and_keeps_its_connection, sizeof mistakes / sizeof mistakes[0])
{
    const char *name = mistakes[_i].name;
    const char *before = answer_text(poke(host, "GET", "query/pid", 200), "cell");

    send_each_way(host, name, 500, 500);
    ck_assert_int_eq(rows(name), 0);
    ck_assert_str_eq(answer_text(poke(host, "GET", "query/pid", 200), "cell"), before);
    host_logs_line(host, 0, "a statement failed", "level=error", "module=poke",
                   "route=\"GET /api/poke/query/:name\"",
                   text("sqlstate=%s", mistakes[_i].sqlstate));
}

/* Another host holds the lock of migrations, so the table may exist soon. */
TEST(an_undefined_table_is_503_while_a_migration_runs)
{
    sql_run(db, "SELECT pg_advisory_lock(7094709482943872001)");
    for (int i = 0; i < 5; i++) {
        send_each_way(host, mistakes[i].name, 503, 503);
    }
    sql_run(db, "SELECT pg_advisory_unlock_all()");
    poke(host, "GET", "query/missing", 500);
}

/* Running together, they would need all connections for transactions at once. */
TEST(jobs_that_run_once_start_one_after_another)
{
    sql_soon(db, "SELECT count(*) FROM (SELECT at - lag(at) OVER run AS one, lag(at) OVER run -"
                 " lag(at, 2) OVER run AS two FROM poke WHERE what = 'once' WINDOW run AS (ORDER BY"
                 " id)) AS t WHERE one BETWEEN '200 ms' AND '2 s' AND two BETWEEN '200 ms' AND"
                 " '2 s'");
}

TEST(a_failed_statement_is_logged_with_its_job_or_command)
{
    struct host *own =
        poke_start(&(struct host_spec){.name = "statements_job", .more = "poke:\n  work: true\n"});

    host_logs_line(own, 0, "a statement failed", "module=poke", "job=poke.work",
                   "statement=\"SELECT 1 / 0", "sqlstate=22012");
    host_command(own, NULL, word_list("poke"));
    host_logs_line(own, 0, "a statement failed", "module=poke", "command=poke");
}

#define PINNED "ISO, MDY|iso_8601|UTC|"

static const char *printed(const struct host *on)
{
    const char *log = file_text(on->log), *last = NULL;

    while ((log = strstr(log, PINNED)) != NULL)
        last = log++;
    ck_assert_ptr_nonnull(last);
    return text("%.*s", (int)strcspn(last, "\n"), last);
}

/* Settings of the database, the role and the environment. */
TEST(styles_and_search_path_of_the_database_are_overridden)
{
    static const char *const environment[] = {"PGTZ=Europe/Berlin", "PGDATESTYLE=German", NULL};
    const char *database = database_make(the_postgres, "statements_german");

    sql_run(db, "ALTER DATABASE statements_german SET datestyle = German");
    sql_run(db, "ALTER DATABASE statements_german SET intervalstyle = sql_standard");
    sql_run(db, "ALTER DATABASE statements_german SET timezone = 'Asia/Tokyo'");
    sql_run(db, "ALTER DATABASE statements_german SET search_path = pg_catalog");
    struct host *own = poke_start(
        &(struct host_spec){.name = database, .database = database, .environment = environment});

    ck_assert_str_eq(answer_text(poke(own, "GET", "query/styles", 200), "cell"),
                     PINNED "\"$user\",public|4MB");
    host_command(own, environment, word_list("styles"));
    ck_assert_str_eq(printed(own), PINNED "\"$user\",public|4MB");
}

/* migrate must create its tables in the schema in which serve looks for them. */
TEST(options_of_the_database_url_apply_to_every_connection)
{
    const char *database = database_make(the_postgres, "statements_options");
    PGconn *other = database_connect(the_postgres, database);
    const char *at =
        text("%s options='-c search_path=elsewhere -c work_mem=2MB -c timezone=Asia/Tokyo'",
             the_postgres->sockets);

    sql_run(other, "CREATE SCHEMA elsewhere");
    struct host *own = poke_start(&(struct host_spec){
        .name = "statements_options", .database = database, .pg = postgres_at(the_postgres, at)});

    ck_assert_str_eq(answer_text(poke(own, "GET", "query/styles", 200), "cell"),
                     PINNED "elsewhere|2MB");
    host_command(own, NULL, word_list("styles"));
    ck_assert_str_eq(printed(own), PINNED "elsewhere|2MB");
    ck_assert_ptr_nonnull(sql_text(other, "SELECT to_regclass('elsewhere.poke')::text", 0, NULL));
    ck_assert_ptr_null(sql_text(other, "SELECT to_regclass('public.poke')::text", 0, NULL));
}

/* On a unix socket PostgreSQL stores keepalive settings without using them. */
TEST(keepalives_are_set_unless_the_database_url_sets_them)
{
    ck_assert_str_eq(answer_text(poke(host, "GET", "query/keepalives", 200), "cell"),
                     "tcp_keepalives_count=3 tcp_keepalives_idle=5 tcp_keepalives_interval=2"
                     " tcp_user_timeout=8000");
    const char *at = text("%s options='-c tcp_keepalives_idle=60'", the_postgres->sockets);
    struct host *own = poke_start(&(struct host_spec){.name = "statements_keepalives_own",
                                                      .pg = postgres_at(the_postgres, at)});

    ck_assert_ptr_nonnull(strstr(answer_text(poke(own, "GET", "query/keepalives", 200), "cell"),
                                 "tcp_keepalives_idle=60"));
}

/* A stricter setting stays. */
TEST(commits_are_durable_and_sessions_stay_whatever_the_database_sets)
{
    static const char *const given[] = {"off", "remote_apply"}, *const wanted[] = {
                                                                    "on 0", "remote_apply 0"};

    for (int i = 0; i < 2; i++) {
        const char *database = database_make(the_postgres, text("statements_durable_%d", i));

        sql_run(db, text("ALTER DATABASE %s SET synchronous_commit = %s", database, given[i]));
        sql_run(db, text("ALTER DATABASE %s SET idle_session_timeout = '1min'", database));
        struct host *own = poke_start(&(struct host_spec){.name = database, .database = database});

        ck_assert_str_eq(answer_text(poke(own, "GET", "query/durable", 200), "cell"), wanted[i]);
        host_stop(own);
    }
}

#define SKIPPED_SINCE "busbar_job_skipped_since_timestamp_seconds{job=\"poke.a\"}"

TEST(a_job_skipped_because_of_its_lock_is_reported)
{
    const char *local =
        text(", by local pid %s idle since 2", sql_text(db, "SELECT pg_backend_pid()", 0, NULL));
    const char *line = NULL;

    sql_run(db, "SELECT pg_advisory_lock(hashtextextended('poke.a', 0))");
    WAIT_UNTIL_MSG((line = strstr(host_says(host, 0, "status"),
                                  "job poke.a skipped: lock held elsewhere since 2")) &&
                       strstr(line, local),
                   30000, "%s", host_says(host, 0, "status"));
    json_t *jobs = json_object_get(host_status(host), "jobs"), *job;
    size_t i;

    json_array_foreach (jobs, i, job) {
        bool is_a = !strcmp(json_string_value(json_object_get(job, "name")), "poke.a");

        ck_assert_int_eq(json_integer_value(json_object_get(job, "skipped")) > 0, is_a);
        ck_assert_int_eq(json_is_object(json_object_get(job, "skippedNow")), is_a);
    }
    const char *page = http(host, "GET", "/metrics", NULL, NULL)->body;

    ck_assert_ptr_nonnull(strstr(page, SKIPPED_SINCE));
    ck_assert_ptr_nonnull(
        strstr(page, "busbar_job_runs_total{job=\"poke.a\",outcome=\"skipped\"}"));
    sql_run(db, "SELECT pg_advisory_unlock_all()");
    WAIT_UNTIL(!strstr(host_says(host, 0, "status"), "job poke.a skipped"), 30000);
    ck_assert_ptr_null(strstr(http(host, "GET", "/metrics", NULL, NULL)->body, SKIPPED_SINCE));
}

/* A function that a statement calls can change all of these, and the text of the statement does not
 * show it. */
TEST(a_connection_is_closed_if_a_function_changed_its_settings)
{
    EACH_TEXT (name, "TimeZone", "DateStyle", "IntervalStyle", "client_encoding",
               "standard_conforming_strings", "default_transaction_read_only", "application_name",
               "session_authorization", "is_superuser") {
        const char *pair = text("detail=%s", name);

        for (int k = 0; k < 3; k++) {
            const char *way = sent[k].way;

            poke(host, sent[k].method, text("%s/%s", way, name), sent[k].good);
            poke(host, sent[k].method, text("%s/calm", way), sent[k].good);
            host_logs_line(host, 0, "level=warn", "a setting of a shared connection has changed",
                           "module=poke", text("/api/poke/%s/:name", way), pair);
        }
    }
    ck_assert_uint_eq(host_logged(host, "Tokyo"), 0);
}

static struct wire *query_begin(const char *name)
{
    struct wire *wire = wire_open(host);

    ck_assert(wire_say(wire, "GET /api/poke/query/%s HTTP/1.1\r\nHost: x\r\n\r\n", name));
    return wire;
}

/* The second statement was already sent when the settings changed, so it is sent again on another
 * connection. */
TEST(a_statement_sent_after_a_changed_setting_is_sent_again)
{
    poke(host, "GET", "query/calm", 200);
    sql_run(db, SQL_GATE_SHUT);
    struct wire *first = query_begin("held");
    sql_soon(db, SQL_GATE_WAITS);
    struct wire *second = query_begin("calm");
    ck_status(http(host, "GET", "/api/health", NULL, NULL), 200); /* `second` has been read */
    sql_run(db, SQL_GATE_OPEN);
    ck_assert_int_eq(wire_read(first, 5000)->status, 200);
    ck_assert_int_eq(wire_read(second, 5000)->status, 200);
}

TEST(a_setting_local_to_a_transaction_keeps_the_connection)
{
    struct host *own =
        poke_start(&(struct host_spec){.name = "statements_passing", .db = ONE_OF_EACH});
    PGconn *other = database_connect(the_postgres, "statements_passing");
    const char *busbars = "application_name = 'busbar' AND datname = current_database()";
    /* except the connection for notifications, which the host opens again after a silence */
    const char *listener = "query LIKE '%LISTEN %' OR query LIKE '%busbar.session%'";

    send_each_way(own, "calm", 200, 201);
    const char *before =
        sql_text(other,
                 text("SELECT array_agg(pid)::text FROM pg_stat_activity WHERE %s AND NOT (%s)",
                      busbars, listener),
                 0, NULL);

    ck_assert_ptr_nonnull(before);
    send_each_way(own, "passing", 200, 201);
    poke(own, "POST", "transaction/TimeZone?refuse=1", 409);
    send_each_way(own, "calm", 200, 201);
    sql_is(other, 0,
           "SELECT count(*) FROM unnest('%s'::int[]) AS old (pid)"
           " WHERE pid NOT IN (SELECT pid FROM pg_stat_activity"
           " WHERE %s)",
           before, busbars);
    ck_assert_uint_eq(host_logged(own, "has changed"), 0);
}

STAGE_SUITE(statements, set_up, 120)
