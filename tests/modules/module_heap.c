/*
 * heap: a module that adds a row type to bulk uploads, as a third-party module would. A thing has a
 * name, unique in its organization, and an amount above 0. An amount of 666 passes the check and
 * makes the statement that stores it fail. Each stored thing raises an event. The module also
 * provides a document store that cannot store files of requests.
 */
#include <stdlib.h>
#include <string.h>

#include <busbar/bulk.h>
#include <busbar/busbar.h>

static const char schema[] =
    "-- step 1: things\n"
    "CREATE TABLE heap_thing (name text NOT NULL, organisation bigint NOT NULL,"
    " amount bigint NOT NULL, row bigint NOT NULL, PRIMARY KEY (name, organisation));\n";

enum { NAME, AMOUNT, COLUMNS };

static const struct bb_field columns[COLUMNS] = {
    {.name = "name", .type = BB_TEXT, .alias = "title", .help = "Unique.", .example = "thing-1"},
    {.name = "amount", .type = BB_NUMBER, .help = "Above 0.", .example = "12.5"},
};

static const struct bb_sql find = {
    "SELECT name FROM heap_thing WHERE organisation = $1::bigint"
    " AND name IN (SELECT json_array_elements_text($2::json))",
    0,
};
static const struct bb_sql insert = {
    "INSERT INTO heap_thing (name, organisation, amount, row)"
    " SELECT t.name, $1::bigint, 1000 / (CASE t.amount WHEN 666 THEN 0 ELSE 1 END) * t.amount / "
    "1000,"
    " t.row FROM json_to_recordset($2::json) AS t (name text, amount numeric, row bigint)"
    " ON CONFLICT DO NOTHING RETURNING row::text",
    BB_SQL_WRITE,
};

static bool sound(struct bb_request *rq, struct bb_bulk_row *row)
{
    const char *amount = row->cells[AMOUNT];
    char *end = NULL;

    if (!row->cells[NAME])
        bb_bulk_problem(rq, row, "name", "is required");
    if (!amount || strtod(amount, &end) <= 0 || *end)
        bb_bulk_problem(rq, row, "amount", "must be a number above 0");
    return !row->problems;
}

/* Returns the valid rows as JSON: their names only, or all cells. */
static const char *sound_json(struct bb_request *rq, struct bb_bulk_row *const *rows, size_t count,
                              bool names)
{
    json_t *list = json_array();
    size_t length;

    for (size_t i = 0; i < count; i++) {
        const char *name = rows[i]->cells[NAME];

        if (rows[i]->problems)
            continue;
        json_array_append_new(list, names ? json_string(name)
                                          : json_pack("{s:s, s:f, s:I}", "name", name, "amount",
                                                      strtod(rows[i]->cells[AMOUNT], NULL), "row",
                                                      (json_int_t)rows[i]->number));
    }
    const char *text = bb_json(rq, list, &length);

    json_decref(list);
    return text;
}

static bool has(struct bb_request *rq, const struct bb_rows *found, const char *name)
{
    for (size_t i = 0; i < bb_count(rq, found); i++)
        if (!strcmp(bb_cell(rq, found, i, 0), name))
            return true;
    return false;
}

static int check(struct bb_request *rq, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (sound(rq, rows[i]))
            rows[i]->claim = (struct bb_bulk_claim){.name = rows[i]->cells[NAME], .field = "name"};
    const struct bb_rows *found = bb_query(
        rq, &find, BB_ARGS(bb_i(job->organization), bb_t(sound_json(rq, rows, count, true))));

    for (size_t i = 0; found && i < count; i++)
        if (!rows[i]->problems && has(rq, found, rows[i]->cells[NAME]))
            bb_bulk_problem(rq, rows[i], "name", "is taken");
    return found ? 0 : -1;
}

static int store(struct bb_request *rq, struct bb_tx *tx, const struct bb_bulk_job *job,
                 struct bb_bulk_row *const *rows, size_t count)
{
    struct bb_audience audience = {.size = sizeof(audience), .organization = job->organization};

    for (size_t i = 0; i < count; i++)
        sound(rq, rows[i]);
    const struct bb_rows *made =
        bb_tx_query(rq, tx, &insert,
                    BB_ARGS(bb_i(job->organization), bb_t(sound_json(rq, rows, count, false))));

    if (!made || bb_emit(rq, tx, "heap.grown",
                         json_pack("{s:I}", "things", (json_int_t)bb_count(rq, made)), &audience))
        return -1;
    for (size_t i = 0; i < count; i++)
        if (!rows[i]->problems && !has(rq, made, bb_format(rq, "%lld", (long long)rows[i]->number)))
            bb_bulk_problem(rq, rows[i], "name", "is taken");
    return 0;
}

static const struct bb_bulk_rows things = {
    .size = sizeof(things),
    .help = "Things.",
    .roles = BB_ROLE_ADMIN | BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_API_USER,
    .rows_max = 50,
    .columns = BB_TABLE(columns),
    .name_column = NAME,
    .check = check,
    .store = store,
};

/* As modules compiled with an earlier header have it, without files of requests. */
static const struct bb_documents old_store = {.size = offsetof(struct bb_documents, take)};
static const struct bb_service_descriptor services[] = {{BB_BULK_ROWS "Things", 1, &things},
                                                        {BB_DOCUMENTS "things", 1, &old_store}};
static const struct bb_field grown[] = {
    {.name = "things", .type = BB_INT, .flags = BB_REQUIRED},
};
static const struct bb_event_descriptor events[] = {
    {.name = "heap.grown", .version = 1, .payload = BB_TABLE(grown), .help = "Things were added."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("heap", "1.0.0"),
    .schema = schema,
    .events = BB_TABLE(events),
    .services = BB_TABLE(services),
};
