/*
 * Readings that were refused, with the reason, for 90 days: GET /api/meter-reads/refused, newest
 * first, and the job reading.refused, which sweeps them away.
 *
 * They are of use to whoever asks what went wrong last week; so there are bounds for each request
 * and each organisation, and the newest stay. A cursor is the id of the last one seen.
 */
#include "reading.h"

#include "unit.h"

enum { PAGE = 1000, TURN_MS = 500 };

#define KEPT_OF_REQUEST 100
#define WH_MOST 9e15 /* more is no energy of a plant, and not exact */

/* $1 organisation, $2 device, $3 now, $4 JSON */
static const struct bb_sql keep = {
    "INSERT INTO reading_refused (organisation, device, type, start_at, end_at, wh, problem,"
    " refused_at) SELECT $1::bigint, $2::bigint, r.type::\"char\", reading_time(r.first),"
    " reading_time(r.last), r.wh, r.problem, reading_time($3::bigint)"
    " FROM jsonb_to_recordset($4::jsonb)"
    " AS r (type text, first bigint, last bigint, wh bigint, problem text)",
    BB_SQL_WRITE};

/* $1 organisation */
static const struct bb_sql bound = {
    "DELETE FROM reading_refused WHERE organisation = $1::bigint AND id <= (SELECT id"
    " FROM reading_refused WHERE organisation = $1::bigint ORDER BY id DESC OFFSET 10000 LIMIT 1)",
    BB_SQL_WRITE};

static const struct bb_sql sweep = {
    "DELETE FROM reading_refused WHERE id IN (SELECT id FROM reading_refused"
    " WHERE refused_at < now() - interval '90 days' ORDER BY refused_at LIMIT 1000)",
    BB_SQL_WRITE};

/* $1 which, $2 start, $3 end, $4 before which id, $5 how many */
#define WANTED                                                                                     \
    "SELECT * FROM reading_refused r WHERE r.refused_at > reading_time($2::bigint)"                \
    " AND r.refused_at <= reading_time($3::bigint) AND r.id < $4::bigint"
#define NEWEST " ORDER BY r.id DESC LIMIT $5::bigint"
#define LISTED(from)                                                                               \
    "SELECT r.id, r.device, r.type, " READING_MS("r.start_at") ", " READING_MS(                    \
        "r.end_at") ", r.wh, r.problem, " READING_MS("r.refused_at") " FROM (" from ") r" NEWEST

static const struct bb_sql of_device = {LISTED(WANTED " AND r.device = $1::bigint" NEWEST),
                                        BB_SQL_LONG};
static const struct bb_sql of_organisations = {
    LISTED("SELECT r.* FROM unnest($1::bigint[]) o CROSS JOIN LATERAL (" WANTED
           " AND r.organisation = o" NEWEST ") r"),
    BB_SQL_LONG};
static const struct bb_sql of_all = {LISTED(WANTED " AND $1::bigint IS NULL" NEWEST), BB_SQL_LONG};

enum column { ID, DEVICE, TYPE, START, END, WH, PROBLEM, REFUSED };

/* ---- keeping ---- */

static const char *problem_of(struct bb_request *rq, const struct reading_notes *notes)
{
    const char *all = NULL;

    for (const struct reading_note *note = notes->first; note; note = note->next)
        all = bb_format(rq, "%s%s%s: %s", all ? all : "", all ? "; " : "", note->field,
                        note->problem);
    return all;
}

static json_t *time_json(bool known, int64_t ms)
{
    bool shown = known && ms >= READING_EARLIEST && ms <= READING_LATEST;

    return shown ? json_integer(ms) : json_null();
}

static json_t *item_json(const struct reading_item *item, const char *problem)
{
    bool exact = item->measured && item->wh <= WH_MOST;

    return json_pack("{s:o, s:o, s:o, s:o, s:s}", "type",
                     item->type ? json_stringn(&item->type, 1) : json_null(), "first",
                     time_json(item->begins, item->start), "last", time_json(item->ends, item->end),
                     "wh", exact ? json_integer((json_int_t)item->wh) : json_null(), "problem",
                     problem);
}

/* Those that have a mistake of their own. NULL: no memory. */
static json_t *items_json(struct bb_request *rq, const struct reading_submission *submission)
{
    json_t *list = json_array();

    for (size_t i = 0; i < submission->count && json_array_size(list) < KEPT_OF_REQUEST; i++) {
        const struct reading_item *item = &submission->items[i];
        const char *problem = problem_of(rq, &submission->notes[item->index]);

        if (problem && json_array_append_new(list, item_json(item, problem))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

void reading_keep_refused(struct bb_request *rq, const struct reading_submission *submission)
{
    const struct bb_device *device = &submission->device;
    json_t *list = items_json(rq, submission);
    const char *text = list ? bb_json(rq, list, &(size_t){0}) : NULL;
    bool any = json_array_size(list) > 0;

    json_decref(list);
    if (!any)
        return;
    if (!text ||
        !bb_query(rq, &keep,
                  BB_ARGS(bb_i(device->organisation), bb_i(device->id), bb_i(bb_wall_ms(rq->host)),
                          bb_t(text))) ||
        !bb_query(rq, &bound, BB_ARGS(bb_i(device->organisation))))
        bb_log(rq, BB_WARN, "refused readings of device %lld were not kept: %s",
               (long long)device->id, bb_sqlstate(rq));
}

/* ---- reading back ---- */

static json_t *time_cell(struct bb_request *rq, const struct bb_rows *rows, size_t row, size_t at)
{
    if (!bb_cell(rq, rows, row, at))
        return json_null();
    return json_string(bb_time_text(rq, bb_cell_int(rq, rows, row, at)));
}

static json_t *row_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    const char *type = bb_cell(rq, rows, row, TYPE);
    bool measured = bb_cell(rq, rows, row, WH) != NULL;

    return json_pack("{s:I, s:I, s:o, s:o, s:o, s:s, s:s?, s:s, s:o}", "id",
                     (json_int_t)bb_cell_int(rq, rows, row, ID), "deviceId",
                     (json_int_t)bb_cell_int(rq, rows, row, DEVICE), "startDate",
                     time_cell(rq, rows, row, START), "endDate", time_cell(rq, rows, row, END),
                     "value", measured ? json_integer(bb_cell_int(rq, rows, row, WH)) : json_null(),
                     "unit", "Wh", "type", type ? unit_type_name(type[0]) : NULL, "problem",
                     bb_cell(rq, rows, row, PROBLEM), "refusedAt",
                     time_cell(rq, rows, row, REFUSED));
}

static int answer(struct bb_request *rq, const struct bb_rows *rows, size_t limit)
{
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);

    if (count < bb_count(rq, rows) && bb_reply_next(rq, bb_cell(rq, rows, count - 1, ID)) < 0)
        return bb_failed(rq);
    json_t *array = json_array();

    for (size_t row = 0; row < count; row++)
        if (json_array_append_new(array, row_json(rq, rows, row))) {
            json_decref(array);
            return reading_reply(rq, 503, NULL);
        }
    return reading_reply(rq, 200, array);
}

/* Of one device, of the organisation that is named, else of all that the caller may see. 0, or the
 * status of the answer given. */
static int whose(struct bb_request *rq, const struct bb_sql **sql, struct bb_value *value)
{
    const struct reading *reading = rq->state;
    const struct bb_principal *who = rq->principal;
    const char *key = bb_arg(rq, "externalId");
    int64_t asked = bb_arg_int(rq, "organizationId", 0);
    struct bb_device device = {.size = sizeof(device)};
    int64_t *one = bb_alloc(rq, sizeof(*one));
    int refused = key ? reading->devices->find(reading->devices_state, rq, key, asked, &device)
                      : bb_organisation(rq, asked, one);

    *sql = key ? &of_device : &of_organisations;
    *value = key    ? bb_i(device.id)
             : *one ? bb_ints(one, 1)
                    : bb_ints(who->organisations, who->organisation_count);
    if (key || *one || who->role != BB_ROLE_ADMIN)
        return refused;
    *sql = &of_all;
    *value = bb_null();
    return refused;
}

int reading_refused(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    struct reading_range range;
    const struct bb_sql *sql;
    struct bb_value value;
    int refused = reading_range(rq, &range);

    if (!refused)
        refused = whose(rq, &sql, &value);
    if (refused)
        return refused;
    const struct bb_rows *rows =
        bb_query(rq, sql,
                 BB_ARGS(value, bb_i(range.start), bb_i(range.end),
                         bb_i(bb_arg_int(rq, "after", INT64_MAX)), bb_i(limit + 1)));

    return rows ? answer(rq, rows, (size_t)limit) : bb_failed(rq);
}

/* ---- the job ---- */

static int sweep_some(struct bb_request *rq, void *arg)
{
    bool *more = arg;
    const struct bb_rows *rows = bb_query(rq, &sweep, BB_NO_ARGS);

    *more = rows && bb_affected(rq, rows) > 0;
    return 0;
}

void reading_sweep_refused(struct bb_request *rq)
{
    int64_t until = bb_now_ms(rq->host) + TURN_MS;
    bool more = true;

    while (more && bb_now_ms(rq->host) < until)
        bb_scratch(rq, sweep_some, &more);
    if (more)
        bb_again(rq);
}
