/*
 * Readings that were refused, with the reason, so that people can find out later what went wrong.
 * They are kept for 90 days: up to 100 readings of a request, and the newest 10,000 of an
 * organization. GET /api/meter-reads/refused lists them, newest first; a cursor is the id of the
 * last reading seen. The job reading.refused deletes old readings.
 */
#include "modules/common/scope.h"
#include "modules/reading/reading.h"

enum { KEPT_OF_REQUEST = 100, PAGE = 1000, TURN_MS = 500 };

#define WH_MOST 9e15 /* no plant generates more, and a larger double is not exact */

/* $1 organization, $2 now, $3 JSON */
static const struct bb_sql keep = {
    "WITH kept AS (INSERT INTO reading_refused (organisation, device, type, start_at, end_at, wh,"
    " problem, errors, refused_at) SELECT $1::bigint, r.device, r.type::\"char\","
    " reading_time(r.first), reading_time(r.last), r.wh,"
    " (SELECT string_agg(e ->> 'field' || ': ' || (e ->> 'problem'), '; ')"
    " FROM jsonb_array_elements(r.errors) e), r.errors, reading_time($2::bigint)"
    " FROM jsonb_to_recordset($3::jsonb)"
    " AS r (device bigint, type text, first bigint, last bigint, wh bigint, errors jsonb))"
    " DELETE FROM reading_refused WHERE organisation = $1::bigint AND id <= (SELECT id"
    " FROM reading_refused WHERE organisation = $1::bigint ORDER BY id DESC"
    " OFFSET greatest(10000 - jsonb_array_length($3::jsonb), 0) LIMIT 1)",
    BB_SQL_WRITE};

static json_t *refused_time(bool known, int64_t ms)
{
    bool shown = known && ms >= READING_EARLIEST && ms <= READING_LATEST;

    return shown ? json_integer(ms) : json_null();
}

void reading_refused_add(struct bb_request *rq, const struct reading_submission *submission,
                         json_t *list)
{
    size_t most = json_array_size(list) + KEPT_OF_REQUEST;

    for (size_t i = 0; i < submission->count && json_array_size(list) < most; i++) {
        const struct reading_item *item = &submission->items[i];
        const struct reading_note *note = submission->notes[item->index];
        json_t *errors;
        bool exact = item->measured && item->wh <= WH_MOST;

        if (!note)
            continue;
        errors = bb_hold(rq, json_array());
        reading_list_notes(rq, note, errors);
        bb_push(
            rq, list,
            json_pack("{s:I, s:o, s:o, s:o, s:o, s:O}", "device", (json_int_t)submission->device.id,
                      "type", item->type ? json_stringn(&item->type, 1) : json_null(), "first",
                      refused_time(item->begins, item->start), "last",
                      refused_time(item->ends, item->end), "wh",
                      exact ? json_integer((json_int_t)item->wh) : json_null(), "errors", errors));
    }
}

int reading_refused_store(struct bb_request *rq, struct bb_tx *tx, int64_t organization,
                          const json_t *list)
{
    if (!json_array_size(list))
        return 0;
    const struct bb_value values[] = {bb_i(organization), bb_i(bb_wall_ms(rq->host)),
                                      bb_t(bb_json(rq, list, NULL))};

    return (tx ? bb_tx_query(rq, tx, &keep, values, 3) : bb_query(rq, &keep, values, 3)) ? 0 : -1;
}

/* ---- GET /api/meter-reads/refused ---- */

/* clang-format off */

/* $1 device or organizations, $2 start, $3 end, $4 id of the last row seen, $5 number of rows */
#define WANTED                                                                                     \
    "SELECT * FROM reading_refused r WHERE r.refused_at > reading_time($2::bigint)"                \
    " AND r.refused_at <= reading_time($3::bigint) AND r.id < $4::bigint"
#define NEWEST " ORDER BY r.id DESC LIMIT $5::bigint"
#define LISTED(from)                                                                               \
    "SELECT r.id, r.device, " BB_SQL_MS("r.start_at") ", " BB_SQL_MS("r.end_at") ", r.wh, 'Wh',"   \
    " CASE r.type WHEN 'H' THEN 'History' WHEN 'D' THEN 'Delta' END, r.problem, r.errors, "        \
    BB_SQL_MS("r.refused_at") " FROM (" from ") r" NEWEST

static const struct bb_sql of_device = {
    LISTED(WANTED " AND r.device = $1::bigint" NEWEST), BB_SQL_LIST};
static const struct bb_sql of_organizations = {
    LISTED("SELECT r.* FROM unnest($1::bigint[]) o CROSS JOIN LATERAL (" WANTED
           " AND r.organisation = o" NEWEST ") r"),
    BB_SQL_LIST};
static const struct bb_sql of_all = {
    LISTED(WANTED " AND $1::bigint[] IS NOT NULL" NEWEST), BB_SQL_LIST};

/* clang-format on */

/* Lists refused readings of a device, of the named organization, or all that the caller may see. */
int reading_refused(struct bb_request *rq)
{
    const struct reading *reading = rq->state;
    const char *key = bb_arg(rq, "externalId");
    int64_t limit = bb_arg_int(rq, "limit", PAGE), asked = bb_arg_int(rq, "organizationId", 0);
    struct bb_device device = {.size = sizeof(device)};
    struct reading_range range = reading_range(rq);
    struct scope scope = {0};
    int refused = key ? reading->devices->find(reading->devices_state, rq, key, asked, &device)
                      : scope_set(rq, asked, &scope);

    if (refused)
        return refused;
    const struct bb_sql *sql = key ? &of_device : scope.all ? &of_all : &of_organizations;
    struct bb_value whose = key ? bb_i(device.id) : bb_ints(scope.organizations, scope.count);
    const struct bb_rows *rows =
        bb_query_or_end(rq, sql,
                        BB_ARGS(whose, bb_i(range.start), bb_i(range.end),
                                bb_i(bb_arg_int(rq, "after", INT64_MAX)), bb_i(limit + 1)));

    return bb_reply_fields(rq, rows, (size_t)limit, 0, reading_refused_fields, 10);
}

/* ---- the job ---- */

static const struct bb_sql sweep = {
    "DELETE FROM reading_refused WHERE id IN (SELECT id FROM reading_refused"
    " WHERE refused_at < now() - interval '90 days' ORDER BY refused_at LIMIT 1000)",
    BB_SQL_WRITE};

void reading_sweep_refused(struct bb_request *rq)
{
    int64_t until = bb_now_ms(rq->host) + TURN_MS;
    bool more = true;

    while (more && bb_now_ms(rq->host) < until) {
        const struct bb_rows *rows = bb_query(rq, &sweep, BB_NO_ARGS);

        more = rows && bb_affected(rq, rows) > 0;
    }
    if (more)
        bb_again(rq);
}
