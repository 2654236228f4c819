/*
 * What of the log is asked for, newest first: by the begin of the certified period. A cursor is
 * "<begin in ms>-<id>" of the last entry seen.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "certificate.h"

/*
 * $1 $2 scope, $3 device, $4 from, $5 before, $6 $7 cursor, $8 how many, and of those that are
 * narrowed $9 group, $10 status, $11 least and $12 most Wh. One statement for each way to find
 * entries, so that each has its index and reads little more than it gives, whatever there is: such
 * a one travels with the reads. No index has group and status: where these narrow, it may take
 * long.
 *
 * Where an index begins with a device or an organisation, both ends are rows that begin with it:
 * equality would let the planner take the index of times and pass over everybody else's entries.
 */
#define CURSOR_AT "to_timestamp($6::bigint / 1000.0)"
#define UNTIL                                                                                      \
    "least($5::timestamptz, " CURSOR_AT "), CASE WHEN $5::timestamptz <= " CURSOR_AT               \
    " THEN 0 ELSE $7::bigint END)"
#define FROM "coalesce($4::timestamptz, '-infinity'), 0)"
#define NARROW                                                                                     \
    " AND ($9::bigint IS NULL OR e.group_id = $9::bigint)"                                         \
    " AND ($10::text IS NULL OR e.status = $10::text)"                                             \
    " AND e.wh BETWEEN $11::bigint AND $12::bigint"
#define NEWEST "e.start_at DESC, e.id DESC"
#define MOST " LIMIT $8::bigint"
#define FETCH(from)                                                                                \
    "SELECT " CERTIFICATE_COLUMNS " FROM (" from ") e" CERTIFICATE_OF_ENTRY " ORDER BY " NEWEST
#define WITHIN(column, value, narrow)                                                              \
    "(e." column ", e.start_at, e.id) < (" value ", " UNTIL " AND (e." column                      \
    ", e.start_at, e.id) >= (" value ", " FROM narrow " ORDER BY e." column " DESC, " NEWEST MOST

/* The first condition is looked at once: a device has one organisation. */
#define BY_DEVICE(narrow)                                                                          \
    FETCH("SELECT * FROM certificate_entry e WHERE ($1::boolean OR (SELECT o.organisation FROM"    \
          " certificate_entry o WHERE o.device = $3::bigint LIMIT 1) = ANY($2::bigint[])) AND"     \
          " " CERTIFICATE_SEES " AND " WITHIN("device", "$3::bigint", narrow))
#define BY_ORGANISATION(narrow)                                                                    \
    FETCH("SELECT e.* FROM (SELECT DISTINCT unnest($2::bigint[]) AS id) o CROSS JOIN LATERAL"      \
          " (SELECT * FROM certificate_entry e WHERE " WITHIN(                                     \
              "organisation", "o.id",                                                              \
              narrow) ") e WHERE NOT $1::boolean AND $3::bigint IS NULL ORDER BY " NEWEST MOST)
#define BY_TIME(narrow)                                                                            \
    FETCH("SELECT * FROM certificate_entry e WHERE $3::bigint IS NULL AND " CERTIFICATE_SEES       \
          " AND (e.start_at, e.id) < (" UNTIL " AND (e.start_at, e.id) >= (" FROM narrow           \
          " ORDER BY " NEWEST MOST)

static const struct bb_sql by_device = {BY_DEVICE(""), 0};
static const struct bb_sql by_organisation = {BY_ORGANISATION(""), 0};
static const struct bb_sql by_time = {BY_TIME(""), 0};
static const struct bb_sql narrow_by_device = {BY_DEVICE(NARROW), BB_SQL_LONG};
static const struct bb_sql narrow_by_organisation = {BY_ORGANISATION(NARROW), BB_SQL_LONG};
static const struct bb_sql narrow_by_time = {BY_TIME(NARROW), BB_SQL_LONG};

#define FEW 16   /* organisations, each of which costs a page */
#define MANY 200 /* entries: more take their time */

/* The calendar of answers: the years 1 to 9999. */
#define EARLIEST INT64_C(-62135596800000)
#define LATEST INT64_C(253402300800000)

static int read_cursor(struct bb_request *rq, struct certificate_filter *filter)
{
    const char *after = bb_arg(rq, "after");
    char *end = NULL;

    filter->after_ms = LATEST;
    filter->after_id = INT64_MAX;
    if (!after)
        return 0;
    errno = 0;
    filter->after_ms = strtoll(after, &end, 10);
    bool good =
        end != after && *end == '-' && filter->after_ms >= EARLIEST && filter->after_ms < LATEST;

    if (good) {
        const char *id = end + 1;

        filter->after_id = strtoll(id, &end, 10);
        good = end != id && !*end && filter->after_id > 0 && !errno;
    }
    return good ? 0 : bb_invalid(rq, "after", "must be a cursor that a Link header gave");
}

int certificate_filter(struct bb_request *rq, struct certificate_filter *filter)
{
    *filter = (struct certificate_filter){
        .device = bb_arg_int(rq, "deviceId", 0),
        .group = bb_arg_int(rq, "groupId", 0),
        .least_wh = bb_arg_int(rq, "minWatthour", 0),
        .most_wh = bb_arg_int(rq, "maxWatthour", INT64_MAX),
        .start = bb_arg(rq, "start"),
        .end = bb_arg(rq, "end"),
        .status = bb_arg(rq, "status"),
    };
    int refused = certificate_scope(rq, bb_arg_int(rq, "organizationId", 0), &filter->scope);

    return refused ? refused : read_cursor(rq, filter);
}

static bool is_narrowed(const struct certificate_filter *filter)
{
    return filter->group || filter->status || filter->least_wh || filter->most_wh != INT64_MAX;
}

const struct bb_rows *certificate_fetch(struct bb_request *rq,
                                        const struct certificate_filter *filter, int64_t limit)
{
    const struct bb_sql *sql = &by_organisation;

    if (is_narrowed(filter) || filter->scope.count > FEW || limit > MANY)
        return certificate_fetch_long(rq, filter, limit);
    if (filter->device || filter->scope.all)
        sql = filter->device ? &by_device : &by_time;
    return bb_query(rq, sql,
                    BB_ARGS(CERTIFICATE_SCOPE_ARGS(&filter->scope),
                            filter->device ? bb_i(filter->device) : bb_null(), bb_t(filter->start),
                            bb_t(filter->end), bb_i(filter->after_ms), bb_i(filter->after_id),
                            bb_i(limit)));
}

const struct bb_rows *certificate_fetch_long(struct bb_request *rq,
                                             const struct certificate_filter *filter, int64_t limit)
{
    const struct bb_sql *sql = &narrow_by_organisation;

    if (filter->device || filter->scope.all)
        sql = filter->device ? &narrow_by_device : &narrow_by_time;
    return bb_query(rq, sql,
                    BB_ARGS(CERTIFICATE_SCOPE_ARGS(&filter->scope),
                            filter->device ? bb_i(filter->device) : bb_null(), bb_t(filter->start),
                            bb_t(filter->end), bb_i(filter->after_ms), bb_i(filter->after_id),
                            bb_i(limit), filter->group ? bb_i(filter->group) : bb_null(),
                            bb_t(filter->status), bb_i(filter->least_wh), bb_i(filter->most_wh)));
}

void certificate_move(struct bb_request *rq, struct certificate_filter *filter,
                      const struct bb_rows *rows, size_t row)
{
    filter->after_ms = bb_cell_int(rq, rows, row, CERTIFICATE_START);
    filter->after_id = bb_cell_int(rq, rows, row, CERTIFICATE_ID);
}
