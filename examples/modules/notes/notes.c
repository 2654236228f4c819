/* notes: each account keeps short notes. docs/modules.md builds this module step by step. */
#include <busbar/busbar.h>
#include <busbar/helpers.h>

/* Ids come from bb_next_id(), so the response is known before the commit. */
static const char schema[] =
    "-- step 1: notes\n"
    "CREATE SEQUENCE notes_id AS bigint;\n"
    "CREATE TABLE notes_note (account bigint NOT NULL, id bigint NOT NULL, body text NOT NULL,"
    " created_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (account, id));\n";

static const struct bb_field settings[] = {{.name = "per_account",
                                            .type = BB_INT,
                                            .min = 1,
                                            .max = 1000000,
                                            .fallback = "1000",
                                            .help = "Maximum number of notes of an account."}};

static const struct bb_field note[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "text", .type = BB_TEXT, .flags = BB_REQUIRED},
};

/* ---- POST /api/notes ---- */

static int create(struct bb_request *rq)
{
    static const struct bb_sql room = {
        "SELECT busbar_require(count(*) < $2::bigint, 409, 'You have too many notes.')"
        " FROM notes_note WHERE account = $1::bigint",
        0};
    static const struct bb_sql insert = {
        "INSERT INTO notes_note (account, id, body) VALUES ($1::bigint, $2::bigint, $3)",
        BB_SQL_WRITE};
    int64_t account = rq->principal->account, id = bb_next_id(rq, "notes_id");
    int64_t most = bb_setting_int(rq->host, "per_account");
    const char *text = bb_text(rq, "text");
    const char *const readers[] = {rq->principal->email, NULL};
    const struct bb_audience audience = {.size = sizeof audience, .emails = readers};

    if (id < 0)
        return bb_failed(rq);
    struct bb_tx *unit = bb_unit(rq, (uint64_t)account); /* one account's units run in order */

    if (!unit || bb_add(rq, unit, &room, BB_ARGS(bb_i(account), bb_i(most))) < 0 ||
        bb_add(rq, unit, &insert, BB_ARGS(bb_i(account), bb_i(id), bb_t(text))) < 0 ||
        bb_emit(rq, unit, "note.created",
                json_pack("{s:I, s:s}", "id", (json_int_t)id, "text", text), &audience))
        return bb_failed(rq);
    int status =
        bb_commit(rq, unit, 201, json_pack("{s:I, s:s}", "id", (json_int_t)id, "text", text));

    return status ? status : bb_failed(rq);
}

/* ---- GET /api/notes ---- */

enum { ID, TEXT };

static json_t *item(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return json_pack("{s:I, s:s}", "id", (json_int_t)bb_cell_int(rq, rows, row, ID), "text",
                     bb_cell(rq, rows, row, TEXT));
}

static int list(struct bb_request *rq)
{
    static const struct bb_sql page = {"SELECT id, body FROM notes_note WHERE account = $1::bigint"
                                       " AND id > $2::bigint ORDER BY id LIMIT $3::bigint",
                                       0};
    int64_t limit = bb_arg_int(rq, "limit", 100), after = bb_arg_int(rq, "after", 0);
    const struct bb_rows *rows = /* one row more shows that there is a next page */
        bb_query(rq, &page, BB_ARGS(bb_i(rq->principal->account), bb_i(after), bb_i(limit + 1)));

    return rows ? bb_reply_rows(rq, rows, (size_t)limit, ID, item) : bb_failed(rq);
}

/* ---- the tables ---- */

static const struct bb_field body[] = {{.name = "text",
                                        .type = BB_TEXT,
                                        .flags = BB_REQUIRED | BB_NOT_BLANK | BB_VERBATIM,
                                        .max = 1000,
                                        .example = "Call the grid operator."}};
static const struct bb_field query[] = {
    {.name = "limit", .type = BB_INT, .min = 1, .max = 100, .help = "Notes per page."},
    {.name = "after", .type = BB_INT, .min = 0, .max = INT64_MAX, .help = "Cursor of the Link."}};
static const struct bb_field list_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(note)}};
static const struct bb_field list_reply[] = {
    {.name = ".", .type = BB_LIST, .fields = BB_TABLE(list_item)}};
static const int create_errors[] = {409, 0};

static const struct bb_route routes[] = {
    {.method = "POST",
     .path = "/api/notes",
     .roles = BB_ANY_ROLE,
     .handler = create,
     .flags = BB_CREATES,
     .body = BB_TABLE(body),
     .reply = BB_TABLE(note),
     .success = 201,
     .errors = create_errors,
     .help = "Create a note."},
    {.method = "GET",
     .path = "/api/notes",
     .roles = BB_ANY_ROLE,
     .handler = list,
     .query = BB_TABLE(query),
     .reply = BB_TABLE(list_reply),
     .help = "List your notes, the oldest first."},
};
static const struct bb_event_descriptor events[] = {
    {.name = "note.created", .version = 1, .payload = BB_TABLE(note), .help = "A new note."}};

BB_EXPORT const struct bb_module busbar_module = {BB_MODULE_HEAD("notes", "1.0.0"),
                                                  .help = "Short notes of accounts.",
                                                  .schema = schema,
                                                  .settings = BB_TABLE(settings),
                                                  .routes = BB_TABLE(routes),
                                                  .events = BB_TABLE(events)};
