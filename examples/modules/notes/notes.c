/* notes: each account keeps short notes. */
#include <busbar/busbar.h>
#include <busbar/helpers.h>
//: with bulk
#include <string.h>
//: end

/* Ids come from bb_next_id(), so the response is known before the commit. */
static const char schema[] =
    "-- step 1: notes\n"
    "CREATE SEQUENCE notes_id AS bigint;\n"
    "CREATE TABLE notes_note (account bigint NOT NULL, id bigint NOT NULL, body text NOT NULL,"
    " created_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (account, id));\n"
    //: with job
    "CREATE INDEX notes_note_age ON notes_note (created_at);\n"
    //: end
    ;
//: with setting

static const struct bb_field settings[] = {{.name = "per_account",
                                            .type = BB_INT,
                                            .min = 1,
                                            .max = 1000000,
                                            .fallback = "1000",
                                            .help = "Maximum number of notes of an account."}};
//: end
//: with route

static const struct bb_field members[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "text", .type = BB_TEXT, .flags = BB_REQUIRED},
};

/* ---- POST /api/notes ---- */

static int create(struct bb_request *rq)
{
    //: with setting
    static const struct bb_sql room = {
        "SELECT busbar_require(count(*) < $2::bigint, 409, 'You have too many notes.')"
        " FROM notes_note WHERE account = $1::bigint",
        0};
    //: end
    static const struct bb_sql insert = {
        "INSERT INTO notes_note (account, id, body) VALUES ($1::bigint, $2::bigint, $3)",
        BB_SQL_WRITE};
    int64_t account = rq->principal->account, id = bb_next_id(rq, "notes_id");
    //: with setting
    int64_t most = bb_setting_int(rq->host, "per_account");
    //: end
    const char *text = bb_text(rq, "text");
    //: with event
    const char *const readers[] = {rq->principal->email, NULL};
    const struct bb_audience audience = {.size = sizeof audience, .emails = readers};
    //: end

    if (id < 0)
        return bb_failed(rq);
    struct bb_tx *unit = bb_unit(rq, (uint64_t)account); /* one account's units run in order */

    if (!unit)
        return bb_failed(rq);
    //: with setting
    if (bb_add(rq, unit, &room, BB_ARGS(bb_i(account), bb_i(most))) < 0)
        return bb_failed(rq);
    //: end
    if (bb_add(rq, unit, &insert, BB_ARGS(bb_i(account), bb_i(id), bb_t(text))) < 0)
        return bb_failed(rq);
    //: with event
    if (bb_emit(rq, unit, "note.created",
                json_pack("{s:I, s:s}", "id", (json_int_t)id, "text", text), &audience))
        return bb_failed(rq);
    //: end
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
//: end
//: with job

/* ---- the job: deletes notes that are older than a year ---- */

static void expire(struct bb_request *rq)
{
    static const struct bb_sql old = {
        "DELETE FROM notes_note WHERE (account, id) IN (SELECT account, id FROM notes_note"
        " WHERE created_at < now() - interval '1 year' LIMIT 1000)",
        BB_SQL_WRITE | BB_SQL_LONG};
    const struct bb_rows *rows = bb_query(rq, &old, BB_NO_ARGS);

    if (rows && bb_affected(rq, rows) == 1000)
        bb_again(rq); /* more may be left */
}

static const struct bb_job jobs[] = {
    {.name = "notes.expire", .every_s = 3600, .flags = BB_ONCE, .run = expire}};
//: end
//: with bulk

/* ---- bulk uploads with type=notes ---- */

static const struct bb_field columns[] = {{.name = "text",
                                           .type = BB_TEXT,
                                           .example = "Call the grid operator.",
                                           .help = "Required; at most 1,000 bytes."}};

static int check(struct bb_request *rq, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    (void)job;
    for (size_t i = 0; i < count; i++) {
        const char *text = rows[i]->cells[0];

        if (!text)
            bb_bulk_problem(rq, rows[i], "text", "is required");
        else if (strlen(text) > 1000)
            bb_bulk_problem(rq, rows[i], "text", "must have at most 1000 bytes");
    }
    return 0;
}

static int store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    static const struct bb_sql insert = {"INSERT INTO notes_note (account, id, body)"
                                         " VALUES ($1::bigint, nextval('notes_id'), $2)",
                                         BB_SQL_WRITE};

    check(rq, job, rows, count);
    for (size_t i = 0; i < count; i++)
        if (!rows[i]->problems &&
            !bb_tx_query(rq, tx, &insert, BB_ARGS(bb_i(job->account), bb_t(rows[i]->cells[0]))))
            return -1;
    return 0;
}

static const struct bb_bulk_rows bulk_rows = {.size = sizeof bulk_rows,
                                              .help = "Notes of the sender.",
                                              .roles = BB_ANY_ROLE,
                                              .columns = BB_TABLE(columns),
                                              .check = check,
                                              .store = store};
static const struct bb_service_descriptor services[] = {{BB_BULK_ROWS "notes", 1, &bulk_rows}};
//: end
//: with route

/* ---- the tables ---- */

static const struct bb_field body[] = {{.name = "text",
                                        .type = BB_TEXT,
                                        .flags = BB_REQUIRED | BB_NOT_BLANK | BB_VERBATIM,
                                        .max = 1000,
                                        .example = "Call the grid operator."}};
static const struct bb_field query[] = {
    {.name = "limit", .type = BB_INT, .min = 1, .max = 100, .help = "Number of notes per page."},
    {.name = "after", .type = BB_INT, .min = 0, .max = INT64_MAX, .help = "Cursor of the Link."}};
static const struct bb_field list_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(members)}};
static const struct bb_field list_reply[] = {
    {.name = ".", .type = BB_LIST, .fields = BB_TABLE(list_item)}};
//: with setting
static const int create_errors[] = {409, 0};
//: end

static const struct bb_route routes[] = {
    {.method = "POST",
     .path = "/api/notes",
     .roles = BB_ANY_ROLE,
     .handler = create,
     .flags = BB_CREATES,
     .body = BB_TABLE(body),
     .reply = BB_TABLE(members),
     .success = 201,
     //: with setting
     .errors = create_errors,
     //: end
     .help = "Create a note."},
    {.method = "GET",
     .path = "/api/notes",
     .roles = BB_ANY_ROLE,
     .handler = list,
     .query = BB_TABLE(query),
     .reply = BB_TABLE(list_reply),
     .help = "List your notes, the oldest first."},
};
//: end
//: with event
static const struct bb_event_descriptor events[] = {
    {.name = "note.created", .version = 1, .payload = BB_TABLE(members), .help = "A new note."}};
//: end

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("notes", "1.0.0"), .help = "Short notes of accounts.", .schema = schema,
    //: with setting
    .settings = BB_TABLE(settings),
    //: end
    //: with route
    .routes = BB_TABLE(routes),
    //: end
    //: with event
    .events = BB_TABLE(events),
    //: end
    //: with job
    .jobs = BB_TABLE(jobs),
    //: end
    //: with bulk
    .services = BB_TABLE(services),
    //: end
};
