/*
 * Readings that were refused, with the reason, kept for 90 days: GET /api/meter-reads/refused,
 * newest first, and the job reading.refused, which deletes old ones.
 *
 * check/problem.c stores them. A cursor is the id of the last one seen.
 */
#include "modules/reading/base/reading.h"

#include "modules/reading/rules/unit.h"

enum { PAGE = 1000, TURN_MS = 500 };

static const struct bb_sql sweep = {
    "DELETE FROM reading_refused WHERE id IN (SELECT id FROM reading_refused"
    " WHERE refused_at < now() - interval '90 days' ORDER BY refused_at LIMIT 1000)",
    BB_SQL_WRITE};

/* $1 device or organizations, $2 start, $3 end, $4 upper bound of the ids, $5 number of readings */
#define WANTED                                                                                     \
    "SELECT * FROM reading_refused r WHERE r.refused_at > reading_time($2::bigint)"                \
    " AND r.refused_at <= reading_time($3::bigint) AND r.id < $4::bigint"
#define NEWEST " ORDER BY r.id DESC LIMIT $5::bigint"
#define LISTED(from)                                                                               \
    "SELECT r.id, r.device, r.type, " READING_MS("r.start_at") ", " READING_MS(                    \
        "r.end_at") ", r.wh, r.problem, " READING_MS("r.refused_at") " FROM (" from ") r" NEWEST

static const struct bb_sql of_device = {LISTED(WANTED " AND r.device = $1::bigint" NEWEST),
                                        BB_SQL_LONG};
static const struct bb_sql of_organizations = {
    LISTED("SELECT r.* FROM unnest($1::bigint[]) o CROSS JOIN LATERAL (" WANTED
           " AND r.organisation = o" NEWEST ") r"),
    BB_SQL_LONG};
static const struct bb_sql of_all = {LISTED(WANTED " AND $1::bigint IS NULL" NEWEST), BB_SQL_LONG};

enum column { ID, DEVICE, TYPE, START, END, WH, PROBLEM, REFUSED };

static json_t *row_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    static const struct bb_column columns[] = {
        {"id", BB_COLUMN_INT, ID},
        {"deviceId", BB_COLUMN_INT, DEVICE},
        {"startDate", BB_COLUMN_TIME, START},
        {"endDate", BB_COLUMN_TIME, END},
        {"value", BB_COLUMN_INT, WH},
        {"type", BB_COLUMN_TEXT, TYPE},
        {"problem", BB_COLUMN_TEXT, PROBLEM},
        {"refusedAt", BB_COLUMN_TIME, REFUSED},
    };
    const char *type = bb_cell(rq, rows, row, TYPE);
    json_t *json = BB_ROW_JSON(rq, rows, row, columns);
    json_t *unit = json_string("Wh");
    json_t *name = type ? json_string(unit_type_name(type[0])) : json_null();

    if (json_object_set_new(json, "unit", unit) | json_object_set_new(json, "type", name)) {
        json_decref(json);
        return NULL;
    }
    return json;
}

/*
 * Selects one device, the named organization, or everything that the caller may see. Returns 0, or
 * the status of the response sent.
 */
static int whose(struct bb_request *rq, const struct bb_sql **sql, struct bb_value *value)
{
    const struct reading *reading = rq->state;
    const struct bb_principal *who = rq->principal;
    const char *key = bb_arg(rq, "externalId");
    int64_t asked = bb_arg_int(rq, "organizationId", 0);
    struct bb_device device = {.size = sizeof(device)};
    int64_t *one = bb_alloc(rq, sizeof(*one));
    int refused = key ? reading->devices->find(reading->devices_state, rq, key, asked, &device)
                      : bb_organization(rq, asked, one);

    *sql = key ? &of_device : &of_organizations;
    *value = key    ? bb_i(device.id)
             : *one ? bb_ints(one, 1)
                    : bb_ints(who->organizations, who->organization_count);
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

    return rows ? bb_reply_rows(rq, rows, (size_t)limit, ID, row_json) : bb_failed(rq);
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
