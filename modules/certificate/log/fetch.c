/*
 * Entries of the log by a filter, newest first, sorted by the start of the certified period. A
 * cursor is "<start in ms>-<id>" of the last entry seen.
 */
#include <string.h>

#include "modules/certificate/log/filter.h"

/*
 * $6 $7 cursor, $8 number of entries. There is a statement for each way to find entries, so that
 * each uses its index and reads little more than it returns, whatever the data; such a statement
 * counts as a short read. Other filters have no index, so with them a statement may take long.
 *
 * If an index begins with a device, a group or an organization, the range has row values that begin
 * with it: with equality the planner might choose the index of times and skip the entries of
 * everybody else.
 */
#define CURSOR_AT "to_timestamp($6::bigint / 1000.0)"
#define UNTIL                                                                                      \
    "least($5::timestamptz, " CURSOR_AT "), CASE WHEN $5::timestamptz <= " CURSOR_AT               \
    " THEN 0 ELSE $7::bigint END)"
#define FROM "coalesce($4::timestamptz, '-infinity'), 0)"
#define NEWEST "e.start_at DESC, e.id DESC"
#define MOST " LIMIT $8::bigint"
#define FETCH(from)                                                                                \
    "SELECT " CERTIFICATE_COLUMNS " FROM (" from ") e" CERTIFICATE_OF_ENTRY " ORDER BY " NEWEST
#define WITHIN(column, value, narrow)                                                              \
    "(e." column ", e.start_at, e.id) < (" value ", " UNTIL " AND (e." column                      \
    ", e.start_at, e.id) >= (" value ", " FROM narrow " ORDER BY e." column " DESC, " NEWEST MOST
/* The same for a rare status; the indexes of those leave out entries that succeeded. */
#define WITHIN_STATUS(column, first, value)                                                        \
    "e.status <> 'Succeeded' AND (" column "e.status, e.start_at, e.id) < (" value                 \
    "$10::text, " UNTIL " AND (" column "e.status, e.start_at, e.id) >= (" value                   \
    "$10::text, " FROM CERTIFICATE_NARROW " ORDER BY " first "e.status DESC, " NEWEST MOST
/* The newest entries of each id, and of these the newest. */
#define OF_EACH_WITHIN(ids, within, condition)                                                     \
    FETCH("SELECT e.* FROM (SELECT DISTINCT unnest(" ids ") AS id) o CROSS JOIN LATERAL"           \
          " (SELECT * FROM certificate_entry e WHERE " within ") e"                                \
          " WHERE $3::bigint IS NULL AND " condition " ORDER BY " NEWEST MOST)
#define OF_EACH(ids, column, narrow, condition)                                                    \
    OF_EACH_WITHIN(ids, WITHIN(column, "o.id", narrow), condition)

#define BY_DEVICE(narrow)                                                                          \
    FETCH("SELECT * FROM certificate_entry e WHERE " CERTIFICATE_SEES_DEVICE                       \
          " AND " CERTIFICATE_SEES " AND " WITHIN("device", "$3::bigint", narrow))
#define BY_CHOSEN(narrow)                                                                          \
    OF_EACH("$19::bigint[]", "device", " AND " CERTIFICATE_SEES narrow, "true")
#define BY_GROUP(narrow)                                                                           \
    FETCH("SELECT * FROM certificate_entry e WHERE " CERTIFICATE_SEES_GROUP                        \
          " AND $3::bigint IS NULL AND e.group_id > 0 AND " WITHIN("group_id", "$9::bigint",       \
                                                                   narrow))
#define BY_ORGANIZATION(narrow) OF_EACH("$2::bigint[]", "organisation", narrow, "NOT $1::boolean")
#define BY_TIME(narrow)                                                                            \
    FETCH("SELECT * FROM certificate_entry e WHERE $3::bigint IS NULL AND " CERTIFICATE_SEES       \
          " AND (e.start_at, e.id) < (" UNTIL " AND (e.start_at, e.id) >= (" FROM narrow           \
          " ORDER BY " NEWEST MOST)

static const struct bb_sql plain[CERTIFICATE_WAYS] = {
    [CERTIFICATE_BY_DEVICE] = {BY_DEVICE(""), 0},
    [CERTIFICATE_BY_GROUP] = {BY_GROUP(""), 0},
    [CERTIFICATE_BY_ORGANIZATION] = {BY_ORGANIZATION(""), 0},
    [CERTIFICATE_BY_TIME] = {BY_TIME(""), 0},
};
static const struct bb_sql narrow[CERTIFICATE_WAYS] = {
    [CERTIFICATE_BY_DEVICE] = {BY_DEVICE(CERTIFICATE_NARROW), BB_SQL_LONG},
    [CERTIFICATE_BY_CHOSEN] = {BY_CHOSEN(CERTIFICATE_NARROW_CHOSEN), BB_SQL_LONG},
    [CERTIFICATE_BY_GROUP] = {BY_GROUP(CERTIFICATE_NARROW), BB_SQL_LONG},
    [CERTIFICATE_BY_ORGANIZATION] = {BY_ORGANIZATION(CERTIFICATE_NARROW), BB_SQL_LONG},
    [CERTIFICATE_BY_TIME] = {BY_TIME(CERTIFICATE_NARROW), BB_SQL_LONG},
};

/* Search by a rare status. */
static const struct bb_sql in_status[CERTIFICATE_WAYS] = {
    [CERTIFICATE_BY_GROUP] = {FETCH(
                                  "SELECT * FROM certificate_entry e WHERE " CERTIFICATE_SEES_GROUP
                                  " AND $3::bigint IS NULL AND e.group_id > 0 AND " WITHIN_STATUS(
                                      "e.group_id, ", "e.group_id DESC, ", "$9::bigint, ")),
                              BB_SQL_LONG},
    [CERTIFICATE_BY_ORGANIZATION] =
        {OF_EACH_WITHIN("$2::bigint[]",
                        WITHIN_STATUS("e.organisation, ", "e.organisation DESC, ", "o.id, "),
                        "NOT $1::boolean"),
         BB_SQL_LONG},
    [CERTIFICATE_BY_TIME] = {FETCH("SELECT * FROM certificate_entry e WHERE $3::bigint IS NULL"
                                   " AND " CERTIFICATE_SEES " AND " WITHIN_STATUS("", "", "")),
                             BB_SQL_LONG},
};

#define FEW 16  /* organizations, each of which costs a page */
#define MANY 50 /* entries; larger pages use a long statement */

#define PLAIN_ARGS(filter, limit)                                                                  \
    CERTIFICATE_HEAD_ARGS(filter), bb_i((filter)->after_ms), bb_i((filter)->after_id), bb_i(limit)

const struct bb_rows *certificate_fetch(struct bb_request *rq,
                                        const struct certificate_filter *filter, int64_t limit)
{
    enum certificate_way way = certificate_way(filter);

    if (!plain[way].text || certificate_narrowed(filter) || filter->scope.count > FEW ||
        limit > MANY)
        return certificate_fetch_long(rq, filter, limit);
    if (way == CERTIFICATE_BY_GROUP)
        return bb_query(rq, &plain[way], BB_ARGS(PLAIN_ARGS(filter, limit), bb_i(filter->group)));
    return bb_query(rq, &plain[way], BB_ARGS(PLAIN_ARGS(filter, limit)));
}

const struct bb_rows *certificate_fetch_long(struct bb_request *rq,
                                             const struct certificate_filter *filter, int64_t limit)
{
    enum certificate_way way = certificate_way(filter);
    const char *status = filter->text[CERTIFICATE_IN_STATUS];
    bool few = status && strcmp(status, "Succeeded") != 0 && in_status[way].text;

    return bb_query(rq, few ? &in_status[way] : &narrow[way],
                    BB_ARGS(PLAIN_ARGS(filter, limit), CERTIFICATE_TAIL_ARGS(filter)));
}

void certificate_move(struct bb_request *rq, struct certificate_filter *filter,
                      const struct bb_rows *rows, size_t row)
{
    filter->after_ms = bb_cell_int(rq, rows, row, CERTIFICATE_START);
    filter->after_id = bb_cell_int(rq, rows, row, CERTIFICATE_ID);
}
