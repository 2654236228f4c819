/*
 * GET /api/certificate-log/issuer/certifiedlogOfdevices: numbered pages of the log.
 *
 * A page has 20 entries, newest first, grouped by certificate; a certificate with more entries
 * continues on the next page. So a page costs the same for a group of ten thousand devices as for
 * one device. The entries of each day are counted in certificate_day. These counts yield the day on
 * which a page begins, so that only entries of this day have to be skipped.
 */
#include <string.h>

#include "modules/certificate/certificate.h"

#define PAGE 20

/* clang-format off */

/*
 * $1 and $2 scope, $3 and $4 first and last day, $5 number of entries before the page. The page
 * begins on a day D. Returns the number of all entries, D + 1, the number of entries of D before
 * the page, and the earliest day. Sums are float8, because PostgreSQL sums bigint as numeric, which
 * is slow. They are exact up to 2^53.
 */
#define PLACE                                                                                      \
    "SELECT coalesce(max(upto), 0)::bigint, max(day) FILTER (WHERE upto > $5::bigint) + 1,"        \
    " ($5::bigint - coalesce(max(upto) FILTER (WHERE upto <= $5::bigint), 0))::bigint, min(day)"   \
    " FROM (SELECT day, sum(n) OVER (ORDER BY day DESC ROWS UNBOUNDED PRECEDING) AS upto"          \
    " FROM (SELECT d.day, sum(d.entries::float8) AS n FROM certificate_day d WHERE d.organisation" \
    " = ANY (CASE WHEN $1::boolean THEN ARRAY[0::bigint] ELSE $2::bigint[] END)"                   \
    " AND d.day >= coalesce(($3::timestamptz AT TIME ZONE 'UTC')::date, '-infinity')"              \
    " AND d.day <= coalesce(($4::timestamptz AT TIME ZONE 'UTC')::date, 'infinity')"               \
    " GROUP BY d.day) d) u"
static const struct bb_sql place_of_one = {PLACE, BB_SQL_REPLICA}, place_of_many = {PLACE, BB_SQL_LIST};

/*
 * $1 and $2 scope, $3 before this day, $4 from this day, $5 entries to skip, $6 number of entries.
 * OFFSET reads only the index. Row comparisons make PostgreSQL use the index of organizations.
 */
#define BEFORE "($3::date)::timestamp AT TIME ZONE 'UTC'"
#define FROM "($4::date)::timestamp AT TIME ZONE 'UTC'"
#define NEWEST "e.start_at DESC, e.id DESC"
#define IN_ORDER(keys, order)                                                                      \
    "SELECT " CERTIFICATE_COLUMNS " FROM (" keys " ORDER BY " order                                \
    " OFFSET $5::bigint LIMIT $6::bigint) k CROSS JOIN LATERAL"                                    \
    " (SELECT * FROM certificate_entry e WHERE e.id = k.id LIMIT 1) e" CERTIFICATE_OF_ENTRY        \
    " ORDER BY " NEWEST
static const struct bb_sql of_some = {
    IN_ORDER("SELECT e.id FROM (SELECT DISTINCT unnest($2::bigint[]) AS id) o CROSS JOIN LATERAL"
            " (SELECT e.start_at, e.id FROM certificate_entry e"
            " WHERE (e.organisation, e.start_at) < (o.id, " BEFORE ")"
            " AND (e.organisation, e.start_at) >= (o.id, " FROM ")"
            " ORDER BY e.organisation DESC, " NEWEST " LIMIT $5::bigint + $6::bigint) e"
            " WHERE NOT $1::boolean", NEWEST),
    BB_SQL_LIST};
static const struct bb_sql of_all = {
    IN_ORDER("SELECT e.id FROM certificate_entry e WHERE $1::boolean"
             " AND cardinality($2::bigint[]) >= 0"
             " AND e.start_at < " BEFORE " AND e.start_at >= " FROM, NEWEST),
    BB_SQL_LIST};

/*
 * $1 and $2 scope, $3 and $4 first and last day, $5 entries to skip, $6 number of entries, $7
 * group. Groups have no counters, so their entries are counted in the index.
 */
#define OF_GROUP                                                                                   \
    "($1::boolean OR (SELECT g.organisation FROM certificate_group g WHERE g.id = $7::bigint)"     \
    " = ANY($2::bigint[])) AND e.group_id > 0 AND (e.group_id, e.start_at) >= ($7::bigint,"        \
    " coalesce(date_trunc('day', $3::timestamptz, 'UTC'), '-infinity')) AND (e.group_id,"          \
    " e.start_at) < ($7::bigint, coalesce(date_trunc('day', $4::timestamptz, 'UTC')"               \
    " + interval '1 day', 'infinity'))"
static const struct bb_sql count_of_group = {
    "SELECT count(*) FROM certificate_entry e WHERE " OF_GROUP
    " AND $5::bigint >= 0 AND $6::bigint > 0",
    BB_SQL_LIST};
static const struct bb_sql of_group = {
    IN_ORDER("SELECT e.id FROM certificate_entry e WHERE " OF_GROUP, "e.group_id DESC, " NEWEST),
    BB_SQL_LIST};

/* clang-format on */

int certificate_pages(struct bb_request *rq)
{
    int64_t page = bb_arg_int(rq, "pageNumber", 1), group = bb_arg_int(rq, "groupId", 0);
    struct scope scope = scope_asked(rq);

    certificate_shared(rq, group, &scope);
    const struct bb_value values[] = {SCOPE_ARGS(&scope),
                                      bb_t(bb_arg(rq, "start_date")),
                                      bb_t(bb_arg(rq, "end_date")),
                                      bb_i((page - 1) * PAGE),
                                      bb_i(PAGE),
                                      bb_i(group)};
    const struct bb_sql *place = scope.all || scope.count <= 1 ? &place_of_one : &place_of_many;
    const struct bb_rows *found =
        bb_query_or_end(rq, group ? &count_of_group : place, values, group ? 7 : 5);
    const struct bb_rows *rows = NULL;

    if (group)
        rows = bb_query_or_end(rq, &of_group, values, 7);
    else if (bb_cell(rq, found, 0, 1))
        rows = bb_query_or_end(rq, scope.all ? &of_all : &of_some,
                               BB_ARGS(SCOPE_ARGS(&scope), bb_t(bb_cell(rq, found, 0, 1)),
                                       bb_t(bb_cell(rq, found, 0, 3)),
                                       bb_i(bb_cell_int(rq, found, 0, 2)), bb_i(PAGE)));
    /*
     * Responds with the entries of the rows, grouped by their certificates. Rows of different
     * certificates may alternate.
     */
    int64_t total = bb_cell_int(rq, found, 0, 0);
    size_t count = rows ? bb_count(rq, rows) : 0;
    json_t **entries = bb_alloc(rq, (count + 1) * sizeof(json_t *)); /* the list of each row */
    json_t *list = bb_hold(rq, json_array());

    for (size_t i = 0; i < count; i++) {
        const char *uid = bb_cell(rq, rows, i, CERTIFICATE_UID);

        for (size_t j = 0; j < i && !entries[i]; j++)
            if (!strcmp(bb_cell(rq, rows, j, CERTIFICATE_UID), uid))
                entries[i] = entries[j];
        if (!entries[i]) {
            json_t *head =
                bb_row_fields(rq, rows, i, CERTIFICATE_UID, certificate_fields, CERTIFICATE_FIELDS);

            bb_push(rq, list, head);
            entries[i] = json_array();
            bb_set(rq, head, "perDeviceCertificateLog", entries[i]);
        }
        bb_push(rq, entries[i], BB_ROW_FIELDS(rq, rows, i, 0, certificate_entry_fields));
    }
    return bb_reply(rq, 200,
                    json_pack("{s:O, s:I, s:I, s:I}", "certificatelog", list, "currentPage",
                              (json_int_t)page, "totalPages",
                              (json_int_t)((total + PAGE - 1) / PAGE), "totalCount",
                              (json_int_t)total));
}
