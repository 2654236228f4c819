/*
 * poke: a module for the tests of statements and connections. It sends each of its statements in
 * every possible way, whether or not it is allowed: as a query, in a unit, and in a
 * transaction after one of its inserts and before another.
 */
#include <string.h>

#include <busbar/busbar.h>
#include <busbar/helpers.h>

static const char schema[] =
    "-- step 1: what was written\n"
    "CREATE TABLE poke (id bigint GENERATED ALWAYS AS IDENTITY, what text NOT NULL,"
    " at timestamptz NOT NULL DEFAULT clock_timestamp());\n"
    "GRANT INSERT ON poke TO PUBLIC;\n"
    "CREATE TABLE poke_shape (a int);\n"
    "INSERT INTO poke_shape VALUES (1);\n"
    "CREATE FUNCTION poke_set(name text, value text, local boolean) RETURNS text LANGUAGE sql AS"
    " $$ SELECT set_config(name, value, local) $$;\n";

static const struct {
    const char *name;
    struct bb_sql sql;
} statements[] = {
    {"one", {"SELECT 1", 0}},
    {"with", {"/* one */ WITH a AS (SELECT 'COMMIT; BEGIN') SELECT * FROM a;", 0}},
    {"begin", {"BEGIN", 0}},
    {"comment", {"-- one\n /* two /* three */ */ ; bEgIn", 0}},
    {"commit", {"COMMIT", 0}},
    {"rollback", {"ROLLBACK", 0}},
    {"savepoint", {"SAVEPOINT a", 0}},
    {"two", {"SELECT 1; COMMIT", 0}},
    {"set", {"SET search_path = nowhere", 0}},
    {"set-local", {"SET LOCAL work_mem = '1MB'", 0}},
    {"listen", {"LISTEN nothing", 0}},
    {"discard", {"DISCARD ALL", 0}},
    {"empty", {"-- nothing", 0}},
    {"divide",
     {"\n\tSELECT 1\r\n  / 0 /* a division, and a comment that exceeds the length of a"
      " log's field */",
      0}},
    {"broken", {"SELEC 1", 0}},
    {"missing", {"SELECT * FROM poke_missing", 0}},
    {"missing-column", {"SELECT poke_missing FROM poke", 0}},
    {"missing-function", {"SELECT poke_missing()", 0}},
    {"missing-type", {"SELECT 1::poke_missing", 0}},
    {"missing-schema", {"SELECT poke_missing.f()", 0}},
    {"unsupported", {"SELECT array_positions(ARRAY[[1, 2], [3, 4]], 1)", 0}},
    {"shape", {"SELECT * FROM poke_shape", 0}},
    {"sleep", {"SELECT pg_sleep(30)", 0}},
    {"gate", {"SELECT pg_advisory_xact_lock_shared(4711)", 0}},
    {"styles",
     {"SELECT concat_ws('|', current_setting('DateStyle'), current_setting('IntervalStyle'),"
      " current_setting('TimeZone'), current_setting('search_path'), current_setting('work_mem'))",
      0}},
    {"pid", {"SELECT pg_backend_pid()", 0}},
    {"keepalives",
     {"SELECT string_agg(name || '=' || reset_val, ' ' ORDER BY name) FROM pg_settings"
      " WHERE name LIKE 'tcp\\_%'",
      0}},
    {"durable",
     {"SELECT concat_ws(' ', current_setting('synchronous_commit'),"
      " current_setting('idle_session_timeout'))",
      0}},
    {"list", {"SELECT '[1, \"two\"]'", 0}},
    {"object", {"SELECT '{}'", 0}},
    {"word", {"SELECT '\"word\"'", 0}},
    {"number", {"SELECT '12'", 0}},
    {"half", {"SELECT '[1,'", 0}},
    {"nothing", {"SELECT ''", 0}},
    {"null", {"SELECT NULL::text", 0}},
    {"two-rows",
     {"VALUES (9, 'Rooftop', 3, 1.5, 1775044800000, true, '[1]'),"
      " (10, NULL, NULL, NULL, NULL, false, NULL)",
      0}},
    {"bad-row", {"VALUES (9, NULL, NULL, NULL, NULL, NULL, '[')", 0}},
    /* These change settings inside a function, invisible in the statement's text. */
    {"TimeZone", {"SELECT poke_set('TimeZone', 'Asia/Tokyo', false)", 0}},
    {"DateStyle", {"SELECT poke_set('DateStyle', 'German', false)", 0}},
    {"IntervalStyle", {"SELECT poke_set('IntervalStyle', 'sql_standard', false)", 0}},
    {"client_encoding", {"SELECT poke_set('client_encoding', 'LATIN1', false)", 0}},
    {"standard_conforming_strings",
     {"SELECT poke_set('standard_conforming_strings', 'off', false)", 0}},
    {"default_transaction_read_only",
     {"SELECT poke_set('default_transaction_read_only', 'on', false)", 0}},
    {"application_name", {"SELECT poke_set('application_name', 'poke', false)", 0}},
    {"session_authorization", {"SELECT poke_set('session_authorization', 'pg_monitor', false)", 0}},
    {"is_superuser", {"SELECT poke_set('role', 'pg_monitor', false)", 0}},
    {"held",
     {"SELECT poke_set('TimeZone', 'Asia/Tokyo', false), pg_advisory_xact_lock_shared(4711)", 0}},
    {"write-long", {"INSERT INTO poke (what) VALUES ('long')", BB_SQL_WRITE | BB_SQL_LONG}},
    {"passing", {"SELECT poke_set('TimeZone', 'Asia/Tokyo', true)", 0}},
    /* Fails unless all settings are as the host has set them. */
    {"calm",
     {"SELECT 1 / (current_setting('TimeZone') = 'UTC' AND"
      " current_setting('DateStyle') = 'ISO, MDY' AND"
      " current_setting('IntervalStyle') = 'iso_8601' AND"
      " current_setting('client_encoding') = 'UTF8' AND"
      " current_setting('standard_conforming_strings') = 'on' AND"
      " current_setting('default_transaction_read_only') = 'off' AND"
      " current_setting('application_name') = 'busbar' AND"
      " current_setting('role') = 'none' AND"
      " current_setting('is_superuser') = 'on')::int",
      0}},
};

static const struct bb_sql *statement_of(const char *name)
{
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++)
        if (!strcmp(statements[i].name, name))
            return &statements[i].sql;
    return &statements[0].sql;
}

static const struct bb_sql write_row = {"INSERT INTO poke (what) VALUES ($1)", BB_SQL_WRITE};

static int reply_cell(struct bb_request *rq, const struct bb_rows *rows)
{
    const char *cell = bb_count(rq, rows) ? bb_cell(rq, rows, 0, 0) : NULL;

    return bb_reply(rq, 200, json_pack("{s:s?}", "cell", cell));
}

static int query(struct bb_request *rq)
{
    const struct bb_sql *sql = statement_of(bb_segment(rq, "name"));

    bb_defer(rq, free, strdup("freed if the handler ends in bb_query_or_end()"));
    return reply_cell(rq, bb_query_or_end(rq, sql, BB_NO_ARGS));
}

static int write_one(struct bb_request *rq)
{
    bb_query_or_end(rq, &write_row, BB_ARGS(bb_t(bb_segment(rq, "name"))));
    return bb_reply(rq, 201, json_object());
}

static int unit(struct bb_request *rq)
{
    const char *name = bb_segment(rq, "name");
    struct bb_tx *tx = bb_unit(rq, 1);

    bb_add(rq, tx, &write_row, BB_ARGS(bb_t(name)));
    bb_add(rq, tx, statement_of(name), BB_NO_ARGS);
    bb_add(rq, tx, &write_row, BB_ARGS(bb_t(name)));
    int status = bb_commit(rq, tx, 201, json_object());

    return status ? status : bb_failed(rq);
}

static int within(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const char *name = arg;

    bb_tx_query_or_end(rq, tx, &write_row, BB_ARGS(bb_t(name)));
    bb_tx_query(rq, tx, statement_of(name), BB_NO_ARGS);
    bb_tx_query(rq, tx, &write_row, BB_ARGS(bb_t(name)));
    if (bb_arg_int(rq, "refuse", 0))
        bb_end(rq, bb_fail(rq, 409, "Rolled back"));
    return bb_reply(rq, 201, json_object());
}

static int transaction(struct bb_request *rq)
{
    return bb_transaction(rq, within, (void *)(uintptr_t)bb_segment(rq, "name"));
}

/* Ends in the middle of a transaction, as if memory had run out. */
static int leave(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    (void)arg;
    bb_tx_query(rq, tx, &write_row, BB_ARGS(bb_t("left")));
    bb_alloc(rq, SIZE_MAX / 2);
    return bb_reply(rq, 201, json_object());
}

static int abandon(struct bb_request *rq)
{
    return bb_transaction(rq, leave, NULL);
}

static int raise_event(struct bb_request *rq)
{
    struct bb_tx *tx = bb_unit(rq, 1);

    bb_add(rq, tx, &write_row, BB_ARGS(bb_t("raised")));
    if (bb_emit(rq, tx, "poke.poked", json_object(), NULL))
        return bb_failed(rq);
    int status = bb_commit(rq, tx, 201, json_object());

    return status ? status : bb_failed(rq);
}

static void hear(struct bb_request *rq, const struct bb_event *event)
{
    (void)event;
    bb_query(rq, statement_of("divide"), BB_NO_ARGS);
}

static void work(struct bb_request *rq)
{
    if (bb_setting_int(rq->host, "work"))
        bb_query(rq, statement_of("divide"), BB_NO_ARGS);
}

static void once(struct bb_request *rq)
{
    bb_query(rq, &write_row, BB_ARGS(bb_t("once")));
}

static int command(struct bb_request *rq)
{
    bb_query(rq, statement_of("divide"), BB_NO_ARGS);
    bb_failed(rq);
    return 1;
}

static int styles(struct bb_request *rq)
{
    const struct bb_rows *rows = bb_query(rq, statement_of("styles"), BB_NO_ARGS);

    if (rows)
        bb_print(rq, "%s\n", bb_cell(rq, rows, 0, 0));
    return rows ? 0 : 1;
}

/* ---- <busbar/helpers.h> ---- */

/* bb_failed() if the cell is not JSON. */
static int show_json(struct bb_request *rq)
{
    const struct bb_rows *rows = bb_query(rq, statement_of(bb_segment(rq, "name")), BB_NO_ARGS);
    json_t *json = bb_json_hold(rq, bb_json_read(rq, bb_cell(rq, rows, 0, 0)));

    return json ? bb_reply(rq, 200, json_incref(json)) : bb_failed(rq);
}

static json_t *row_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    static const struct bb_field fields[] = {
        {.name = "id", .type = BB_INT},    {.name = "name", .type = BB_TEXT},
        {.name = "group", .type = BB_INT}, {.name = "size", .type = BB_NUMBER},
        {.name = "made", .type = BB_TIME}, {.name = "big", .type = BB_BOOL},
        {.name = "tags", .type = BB_LIST},
    };

    return BB_ROW_FIELDS(rq, rows, row, 0, fields);
}

static int list_rows(struct bb_request *rq)
{
    const struct bb_rows *rows =
        bb_query_or_end(rq, statement_of(bb_segment(rq, "name")), BB_NO_ARGS);

    return bb_reply_rows(rq, rows, 10, 0, row_json);
}

/* ---- functions that take a text, which must not be read as a format ---- */

#define TEXT "100 %s of %n"

static int reply_text(struct bb_request *rq)
{
    const char *name = bb_segment(rq, "name");
    json_t *problem = NULL;

    bb_log_text(rq, BB_WARN, "logged " TEXT);
    bb_host_log_text(rq->host, BB_INFO, "host " TEXT);
    if (!strcmp(name, "fail"))
        return bb_fail_text(rq, 418, TEXT);
    if (!strcmp(name, "forbid"))
        return bb_fail_text(rq, 403, NULL);
    if (!strcmp(name, "invalid"))
        return bb_invalid_text(rq, "share", TEXT);
    if (!strcmp(name, "listed")) {
        problem = json_pack("{s:s, s:s}", "field", "share", "problem", "is taken");
        return bb_fail_listed_text(rq, 409, json_pack("[o]", problem), TEXT);
    }
    bb_warn_text(rq, TEXT);
    return bb_reply(rq, 200, json_pack("{s:[s]}", "warnings", "the module's own"));
}

static int print_text(struct bb_request *rq)
{
    bb_print_text(rq, "printed " TEXT "\n");
    return 0;
}

static int open_poke(struct bb_host *host, void **state)
{
    (void)state;
    return bb_setting_int(host, "closed") ? bb_open_fail_text(host, TEXT) : 0;
}

static int notify(struct bb_request *rq)
{
    return bb_notify(rq, NULL, "poke", "") ? bb_failed(rq) : bb_reply(rq, 204, NULL);
}

static const struct bb_field settings[] = {
    {.name = "closed", .type = BB_BOOL, .fallback = "false", .help = "It does not open."},
    {.name = "work", .type = BB_BOOL, .fallback = "false", .help = "The job's statement fails."},
};

static const struct bb_field name[] = {{.name = "name", .type = BB_TEXT, .max = 40}};
static const struct bb_field refuse[] = {{.name = "refuse", .type = BB_INT, .max = 1}};

#define ROUTE(of, at, does, ...)                                                                   \
    {                                                                                              \
        .method = (of), .path = "/api/poke/" at, .roles = BB_ANYONE, .handler = (does),            \
        __VA_ARGS__                                                                                \
    }

static const struct bb_route routes[] = {
    ROUTE("GET", "query/:name", query, .segments = BB_TABLE(name)),
    ROUTE("POST", "write/:name", write_one, .segments = BB_TABLE(name)),
    ROUTE("POST", "unit/:name", unit, .segments = BB_TABLE(name), .flags = BB_CREATES),
    ROUTE("POST", "transaction/:name", transaction, .segments = BB_TABLE(name),
          .query = BB_TABLE(refuse)),
    ROUTE("GET", "json/:name", show_json, .segments = BB_TABLE(name)),
    ROUTE("GET", "rows/:name", list_rows, .segments = BB_TABLE(name)),
    ROUTE("GET", "text/:name", reply_text, .segments = BB_TABLE(name)),
    ROUTE("POST", "abandon", abandon, .flags = 0),
    ROUTE("GET", "notify", notify),
    ROUTE("POST", "raise", raise_event, .flags = 0),
};

static const struct bb_event_descriptor events[] = {{"poke.poked", 1, {0}, "It was poked."}};
static const struct bb_hook hooks[] = {
    {.event = "poke.poked", .kind = BB_COMMITTED, .committed = hear},
};
static const struct bb_job jobs[] = {
    {.name = "poke.work", .every_s = 1, .run = work},
    {.name = "poke.a", .every_s = 4, .flags = BB_ONCE, .run = once},
    {.name = "poke.b", .every_s = 4, .flags = BB_ONCE, .run = once},
    {.name = "poke.c", .every_s = 4, .flags = BB_ONCE, .run = once},
};
static const struct bb_command commands[] = {
    {.name = "poke", .help = "A statement fails.", .run = command},
    {.name = "styles", .help = "Settings of the connection.", .run = styles},
    {.name = "print", .help = "Prints a text.", .run = print_text},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("poke", "1.0.0"),
    .schema = schema,
    .settings = BB_TABLE(settings),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .hooks = BB_TABLE(hooks),
    .jobs = BB_TABLE(jobs),
    .commands = BB_TABLE(commands),
    .open = open_poke,
};
