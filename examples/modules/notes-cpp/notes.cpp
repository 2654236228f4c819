/* notes: each account keeps short notes. */
#include <busbar/busbar.hpp>
//: with bulk

#include <cstring>
//: end

namespace
{

constexpr char schema[] =
    "-- step 1: notes\n"
    "CREATE SEQUENCE notes_id AS bigint;\n"
    "CREATE TABLE notes_note (account bigint NOT NULL, id bigint NOT NULL, body text NOT NULL,"
    " created_at timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (account, id));\n"
    //: with job
    "CREATE INDEX notes_note_age ON notes_note (created_at);\n"
    //: end
    ;
//: with setting

constexpr bb_field settings[] = {{.name = "per_account",
                                  .type = BB_INT,
                                  .min = 1,
                                  .max = 1000000,
                                  .fallback = "1000",
                                  .help = "Maximum number of notes of an account."}};
//: end
//: with route

constexpr bb_field members[] = {
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},
    {.name = "text", .type = BB_TEXT, .flags = BB_REQUIRED},
};

busbar::json item(int64_t id, std::string_view text)
{
    return busbar::json::object().set("id", id).set("text", text);
}

/* ---- POST /api/notes ---- */

int create(busbar::request &rq)
{
    //: with setting
    static constexpr bb_sql room = {
        "SELECT busbar_require(count(*) < $2::bigint, 409, 'You have too many notes.')"
        " FROM notes_note WHERE account = $1::bigint",
        0};
    //: end
    static constexpr bb_sql insert = {
        "INSERT INTO notes_note (account, id, body) VALUES ($1::bigint, $2::bigint, $3)",
        BB_SQL_WRITE};
    const bb_principal &caller = rq.principal();
    int64_t id = rq.next_id("notes_id"); /* so the response is known before the commit */
    const char *text = rq.text("text");
    busbar::unit unit = rq.unit(caller.account); /* one account's units run in order */

    //: with setting
    unit.add(room, caller.account, rq.setting_int("per_account"));
    //: end
    unit.add(insert, caller.account, id, text);
    //: with event
    unit.emit("note.created", item(id, text), {.emails = {caller.email}});
    //: end
    return std::move(unit).commit(201, item(id, text));
}

/* ---- GET /api/notes ---- */

int list(busbar::request &rq)
{
    static constexpr bb_sql page = {"SELECT id, body FROM notes_note WHERE account = $1::bigint"
                                    " AND id > $2::bigint ORDER BY id LIMIT $3::bigint",
                                    0};
    int64_t limit = rq.arg_int("limit", 100);
    busbar::rows rows = /* one row more shows that there is a next page */
        rq.query(page, rq.principal().account, rq.arg_int("after", 0), limit + 1);

    return rq.reply_rows(rows, static_cast<size_t>(limit), 0, [](busbar::rows::row row) {
        return item(row.number(0), row.text(1).value_or(""));
    });
}
//: end
//: with job

/* ---- the job: deletes notes that are older than a year ---- */

void expire(busbar::request &rq)
{
    static constexpr bb_sql old = {
        "DELETE FROM notes_note WHERE (account, id) IN (SELECT account, id FROM notes_note"
        " WHERE created_at < now() - interval '1 year' LIMIT 1000)",
        BB_SQL_WRITE | BB_SQL_LONG};

    if (rq.query(old).affected() == 1000)
        rq.again(); /* more may be left */
}

constexpr bb_job jobs[] = {
    {.name = "notes.expire", .every_s = 3600, .flags = BB_ONCE, .run = busbar::job<expire>}};
//: end
//: with bulk

/* ---- bulk uploads with type=notes ---- */

constexpr bb_field columns[] = {{.name = "text",
                                 .type = BB_TEXT,
                                 .help = "Required; at most 1,000 bytes.",
                                 .example = "Call the grid operator."}};

void check(busbar::request &, const bb_bulk_job &, busbar::bulk_rows rows)
{
    for (size_t i = 0; i < rows.size(); i++) {
        const char *text = rows[i].cell(0);

        if (!text)
            rows[i].problem("text", "is required");
        else if (std::strlen(text) > 1000)
            rows[i].problem("text", "must have at most 1000 bytes");
    }
}

void store(busbar::request &rq, busbar::transaction &tx, const bb_bulk_job &job,
           busbar::bulk_rows rows)
{
    static constexpr bb_sql insert = {"INSERT INTO notes_note (account, id, body)"
                                      " VALUES ($1::bigint, nextval('notes_id'), $2)",
                                      BB_SQL_WRITE};

    check(rq, job, rows);
    for (size_t i = 0; i < rows.size(); i++)
        if (!rows[i].is_refused())
            tx.query(insert, job.account, rows[i].cell(0));
}

constexpr bb_bulk_rows bulk_rows = {.size = sizeof bulk_rows,
                                    .help = "Notes of the sender.",
                                    .roles = BB_ANY_ROLE,
                                    .columns = BB_TABLE(columns),
                                    .check = busbar::check<check>,
                                    .store = busbar::store<store>};
constexpr bb_service_descriptor services[] = {{BB_BULK_ROWS "notes", 1, &bulk_rows}};
//: end
//: with route

/* ---- the tables ---- */

constexpr bb_field body[] = {{.name = "text",
                              .type = BB_TEXT,
                              .flags = BB_REQUIRED | BB_NOT_BLANK | BB_VERBATIM,
                              .max = 1000,
                              .example = "Call the grid operator."}};
constexpr bb_field query[] = {
    {.name = "limit", .type = BB_INT, .min = 1, .max = 100, .help = "Number of notes per page."},
    {.name = "after", .type = BB_INT, .min = 0, .max = INT64_MAX, .help = "Cursor of the Link."}};
constexpr bb_field list_item[] = {{.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(members)}};
constexpr bb_field list_reply[] = {{.name = ".", .type = BB_LIST, .fields = BB_TABLE(list_item)}};
//: with setting
constexpr int create_errors[] = {409, 0};
//: end

constexpr bb_route routes[] = {
    {
        .method = "POST",
        .path = "/api/notes",
        .roles = BB_ANY_ROLE,
        .handler = busbar::route<create>,
        .body = BB_TABLE(body),
        .reply = BB_TABLE(members),
        .flags = BB_CREATES,
        .success = 201,
        .help = "Create a note.",
        //: with setting
        .errors = create_errors,
        //: end
    },
    {.method = "GET",
     .path = "/api/notes",
     .roles = BB_ANY_ROLE,
     .handler = busbar::route<list>,
     .query = BB_TABLE(query),
     .reply = BB_TABLE(list_reply),
     .help = "List your notes, the oldest first."},
};
//: end
//: with event
constexpr bb_event_descriptor events[] = {
    {.name = "note.created", .version = 1, .payload = BB_TABLE(members), .help = "A new note."}};
//: end

} // namespace

const bb_module busbar_module = {
    BB_MODULE_HEAD("notes", "1.0.0"),
    .schema = schema,
    //: with setting
    .settings = BB_TABLE(settings),
    //: end
    //: with route
    .routes = BB_TABLE(routes),
    //: end
    //: with event
    .events = BB_TABLE(events),
    //: end
    //: with bulk
    .services = BB_TABLE(services),
    //: end
    //: with job
    .jobs = BB_TABLE(jobs),
    //: end
    .help = "Short notes of accounts.",
};
