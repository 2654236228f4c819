/* A module as it could be written against the headers of ABI 1.0, with something of everything. */
#include <busbar/event.h>
#include <busbar/host.h>
#include <busbar/module.h>
#include <busbar/request.h>
#include <busbar/sql.h>

_Static_assert(BB_ABI_MAJOR == 1 && BB_ABI_MINOR == 0, "the frozen headers, and no others");

struct witness {
    int64_t limit;
    const char *mark;
};

static const struct bb_sql insert = {"INSERT INTO witness_row VALUES ($1, $2)", BB_SQL_WRITE};
static const struct bb_sql insert_heard = {"INSERT INTO witness_heard VALUES ($1)", BB_SQL_WRITE};
static const struct bb_sql select_rows = {
    "SELECT text FROM witness_row WHERE text LIKE $1 ORDER BY id LIMIT $2::bigint", 0};
static const struct bb_sql count_rows = {"SELECT count(*) FROM witness_row", 0};

static int create(struct bb_request *rq)
{
    const char *entry = bb_text(rq, "text");
    int64_t id = bb_next_id(rq, "witness_id");
    struct bb_tx *unit = id < 0 ? NULL : bb_unit(rq, (uint64_t)id);
    json_t *payload = json_pack("{s:s}", "text", entry);

    if (!unit || bb_add(rq, unit, &insert, BB_ARGS(bb_i(id), bb_t(entry))) < 0) {
        json_decref(payload);
        return bb_failed(rq);
    }
    if (bb_emit(rq, unit, "witness.made", payload, NULL))
        return bb_failed(rq);
    int status = bb_commit(rq, unit, 201, json_pack("{s:I}", "id", (json_int_t)id));

    return status ? status : bb_failed(rq);
}

static int list(struct bb_request *rq)
{
    const struct witness *witness = rq->state;
    const char *pattern = bb_format(rq, "%s%%", bb_segment(rq, "prefix"));
    int64_t limit = bb_arg_int(rq, "limit", witness->limit);
    struct bb_rows *rows = bb_query(rq, &select_rows, BB_ARGS(bb_t(pattern), bb_i(limit)));
    json_t *texts = json_array();

    if (!rows) {
        json_decref(texts);
        return bb_failed(rq);
    }
    for (size_t i = 0; i < bb_count(rq, rows); i++)
        json_array_append_new(texts, json_string(bb_cell(rq, rows, i, 0)));
    return bb_reply(rq, 200,
                    json_pack("{s:s, s:s, s:o}", "mark", witness->mark, "caller",
                              rq->principal->email, "texts", texts));
}

/* Refuses what the setting forbids. */
static int before(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                  void *state)
{
    const char *entry = json_string_value(json_object_get(event->payload, "text"));

    (void)tx;
    (void)state;
    if (!entry || *entry != '!')
        return 0;
    bb_fail(rq, 409, "The witness does not like this");
    return -1;
}

static void after(struct bb_request *rq, const struct bb_event *event)
{
    const char *entry = json_string_value(json_object_get(event->payload, "text"));

    if (!bb_query(rq, &insert_heard, BB_ARGS(bb_t(entry))))
        bb_log(rq, BB_WARN, "event %s was not heard", event->id);
}

static int count(struct bb_request *rq)
{
    struct bb_rows *rows = bb_query(rq, &count_rows, BB_NO_ARGS);

    if (!rows)
        return 1;
    bb_print(rq, "witness: %s rows\n", bb_cell(rq, rows, 0, 0));
    return 0;
}

static int open_witness(struct bb_host *host, void **state)
{
    struct witness *witness = bb_host_alloc(host, sizeof *witness);

    if (!witness)
        return bb_open_fail(host, "out of memory");
    witness->limit = bb_setting_int(host, "limit");
    witness->mark = bb_setting_text(host, "mark");
    *state = witness;
    return 0;
}

static const struct bb_field settings[] = {
    {.name = "limit", .type = BB_INT, .min = 1, .max = 100, .fallback = "10"},
    {.name = "mark", .type = BB_TEXT, .max = 40, .fallback = "1.0"},
};

static const struct bb_field segments[] = {{.name = "prefix", .type = BB_TEXT, .max = 40}};
static const struct bb_field query[] = {{.name = "limit", .type = BB_INT, .min = 1, .max = 100}};
static const struct bb_field body[] = {
    {.name = "text", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NOT_BLANK, .max = 100}};

static const struct bb_route routes[] = {
    {.method = "POST",
     .path = "/witness",
     .roles = BB_ANY_ROLE,
     .handler = create,
     .body = BB_TABLE(body),
     .flags = BB_CREATES,
     .success = 201},
    {.method = "GET",
     .path = "/witness/:prefix",
     .roles = BB_ROLE_ADMIN,
     .handler = list,
     .segments = BB_TABLE(segments),
     .query = BB_TABLE(query)},
};

static const struct bb_event_descriptor events[] = {
    {"witness.made", 1, BB_TABLE(body), "A row was made."}};
static const struct bb_hook hooks[] = {
    {.event = "witness.made", .kind = BB_WITHIN, .within = before},
    {.event = "witness.made", .kind = BB_COMMITTED, .committed = after},
};
static const struct bb_command commands[] = {
    {.name = "witness count", .run = count, .help = "Prints how many rows there are."}};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("witness", "1.0.0"),
    .schema = "-- step 1: rows, and what was heard of them\n"
              "CREATE SEQUENCE witness_id;\n"
              "CREATE TABLE witness_row (id bigint PRIMARY KEY, text text NOT NULL);\n"
              "CREATE TABLE witness_heard (text text NOT NULL);\n",
    .settings = BB_TABLE(settings),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .hooks = BB_TABLE(hooks),
    .commands = BB_TABLE(commands),
    .open = open_witness,
};
