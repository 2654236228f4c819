/*
 * What of the log is asked for, newest first: by the begin of the certified period. A cursor is
 * "<begin in ms>-<id>" of the last entry seen.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "certificate.h"

/* $1 $2 scope, $3 device, $4 group, $5 from, $6 before, $7 status, $8 $9 cursor, $10 how many */
#define FETCH(index)                                                                               \
    "SELECT " CERTIFICATE_COLUMNS " FROM certificate_entry e"                                      \
    " JOIN certificate c ON c.id = e.certificate WHERE " CERTIFICATE_SEES " AND " index            \
    " AND ($4::bigint IS NULL OR e.group_id = $4::bigint)"                                         \
    " AND e.start_at >= coalesce($5::timestamptz, '-infinity')"                                    \
    " AND e.start_at < coalesce($6::timestamptz, 'infinity')"                                      \
    " AND ($7::text IS NULL OR e.status = $7::text)"                                               \
    " AND (e.start_at, e.id) < (to_timestamp($8::bigint / 1000.0), $9::bigint)"                    \
    " ORDER BY e.start_at DESC, e.id DESC LIMIT $10::bigint"

/* One statement for each way to find them, so that each has its index. */
static const struct bb_sql by_device = {FETCH("e.device = $3::bigint"), BB_SQL_LONG};
static const struct bb_sql by_organisation = {
    FETCH("$3::bigint IS NULL AND e.organisation = ($2::bigint[])[1]"), BB_SQL_LONG};
static const struct bb_sql by_time = {FETCH("$3::bigint IS NULL"), BB_SQL_LONG};

#define LATEST INT64_C(253402300800000) /* the calendar of answers ends with the year 9999 */

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
        end != after && *end == '-' && filter->after_ms > -LATEST && filter->after_ms < LATEST;

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
        .start = bb_arg(rq, "start"),
        .end = bb_arg(rq, "end"),
        .status = bb_arg(rq, "status"),
    };
    int refused = certificate_scope(rq, bb_arg_int(rq, "organizationId", 0), &filter->scope);

    return refused ? refused : read_cursor(rq, filter);
}

const struct bb_rows *certificate_fetch(struct bb_request *rq,
                                        const struct certificate_filter *filter, int64_t limit)
{
    const struct bb_sql *sql = &by_time;

    if (filter->device)
        sql = &by_device;
    else if (!filter->scope.all && filter->scope.count == 1)
        sql = &by_organisation;
    return bb_query(rq, sql,
                    BB_ARGS(CERTIFICATE_SCOPE_ARGS(&filter->scope),
                            filter->device ? bb_i(filter->device) : bb_null(),
                            filter->group ? bb_i(filter->group) : bb_null(), bb_t(filter->start),
                            bb_t(filter->end), bb_t(filter->status), bb_i(filter->after_ms),
                            bb_i(filter->after_id), bb_i(limit)));
}

void certificate_move(struct bb_request *rq, struct certificate_filter *filter,
                      const struct bb_rows *rows, size_t row)
{
    filter->after_ms = bb_cell_int(rq, rows, row, CERTIFICATE_START);
    filter->after_id = bb_cell_int(rq, rows, row, CERTIFICATE_ID);
}
