/*
 * GET /api/certificate-log/explain returns why a device has, or does not have, a certificate for a
 * point in time. GET /api/device/:externalId/coverage lists the gaps between the readings of a
 * period, and the sum of the readings for each reason. certificate_judge() in schema.sql finds the
 * reason of each reading, and reasons.tsv has the explanations.
 */
#include <stdlib.h>
#include <string.h>

#include "modules/certificate/certificate.h"
#include "modules/certificate/reasons.h"

#define LISTED 1000       /* readings or gaps in a response */
#define DISCARDED 20      /* refused or voided readings in a response */
#define COVERAGE_DAYS 366 /* longest period */

/* ---- a point in time ---- */

/* clang-format off */

#define TYPE_NAME(type) "CASE " type " WHEN 'H' THEN 'History' WHEN 'D' THEN 'Delta' END"

/* Finds the cycle in which the Delta reading at time $2 ends, or else the cycle at this time. */
#define CYCLE                                                                                      \
    "WITH moment AS (SELECT $2::timestamptz AS at,"                                                \
    " $2::timestamptz + interval '1 millisecond' AS until),"                                       \
    " cover AS (SELECT b.* FROM moment, reading_between($1::bigint, at, until) b"                  \
    " WHERE b.start_at <= at ORDER BY b.end_at LIMIT 1),"                                          \
    " spot AS (SELECT coalesce((SELECT end_at FROM cover WHERE type = 'D'), until) AS at"          \
    " FROM moment),"                                                                               \
    " span AS (SELECT g.id, g.name, g.frequency, g.start_at, g.end_at,"                            \
    " certificate_cycle(g.frequency, g.start_at, spot.at) AS number"                               \
    " FROM spot, certificate_span s JOIN certificate_group g ON g.id = s.group_id"                 \
    " WHERE s.device = $1::bigint AND spot.at > greatest(s.since_at, g.start_at)"                  \
    " AND spot.at <= least(s.until_at, g.end_at) LIMIT 1),"                                        \
    " cycle AS (SELECT id, name, frequency, start_at, end_at,"                                     \
    " certificate_cycle_at(frequency, start_at, number) AS first,"                                 \
    " least(certificate_cycle_at(frequency, start_at, number + 1), end_at) AS last FROM span)"
#define JUDGED_OF_CYCLE                                                                            \
    "(SELECT x.*, x.start_at <= m.at AND x.end_at > m.at AS covers FROM"                           \
    " certificate_judge($1::bigint, least(m.at, c.first), greatest(m.until, c.last),"              \
    " $3::bigint) x WHERE (x.start_at <= m.at AND x.end_at > m.at)"                                \
    " OR (x.type = 'D' AND x.end_at > c.first AND x.end_at <= c.last)"                             \
    " ORDER BY covers DESC, x.end_at LIMIT $4::int)"

/*
 * $1 device, $2 time, $3 threshold, $4 number of readings. Each row has the group, the cycle, and a
 * reading that covers the time, or a Delta reading that ends in the cycle. Missing parts are null.
 */
static const struct bb_sql explain = {
    CYCLE " SELECT c.id, c.name, c.frequency,"
    " " BB_SQL_MS("c.start_at") ", " BB_SQL_MS("c.end_at") ","
    " " BB_SQL_MS("c.first") ", " BB_SQL_MS("c.last") ", c.last <= now(),"
    " " TYPE_NAME("j.type") ", " BB_SQL_MS("j.start_at") ", " BB_SQL_MS("j.end_at") ", j.wh, 'Wh',"
    " j.reason, j.entries::text, j.covers FROM moment m LEFT JOIN cycle c ON true"
    " LEFT JOIN LATERAL " JUDGED_OF_CYCLE " j ON true",
    BB_SQL_LONG};
enum explained { GROUP, CYCLE_OF = 5, READING = 8, REASON = 13, COVERS = 15 };

/* $1 device, $2 point in time, $3 number of readings */
static const struct bb_sql discarded = {
    "SELECT what, " TYPE_NAME("type") ", " BB_SQL_MS("start_at") ", " BB_SQL_MS("end_at") ", wh,"
    " 'Wh', " BB_SQL_MS("at") ", reason FROM reading_discarded($1::bigint, $2::timestamptz,"
    " $2::timestamptz + interval '1 millisecond', $3::int)",
    BB_SQL_LONG};

/* clang-format on */

/* Finds a device by its externalId, uuid or serialNumber. Ends the request if there is none. */
static struct bb_device explain_find(struct bb_request *rq, const char *key)
{
    const struct certificate *certificate = rq->state;
    int64_t asked = bb_arg_int(rq, "organizationId", 0);
    struct bb_device device;
    int refused = certificate->devices->find(certificate->devices_state, rq, key, asked, &device);

    if (refused)
        bb_end(rq, refused);
    return device;
}

/* Like explain_find(), but a key that has only digits is the device's id. */
static struct bb_device explain_find_device(struct bb_request *rq, const char *key)
{
    const struct certificate *certificate = rq->state;
    int64_t id = strtoll(key, NULL, 10);
    struct bb_device *found;
    bool seen = false;

    if (key[strspn(key, "0123456789")] || !*key)
        return explain_find(rq, key);
    struct scope scope = scope_asked(rq);

    if (certificate->devices->get(certificate->devices_state, rq, &id, 1, &found))
        bb_end(rq, bb_failed(rq));
    for (size_t i = 0; i < scope.count && found->size; i++)
        seen = seen || scope.organizations[i] == found->organization;
    if (!found->size || !(scope.all || seen))
        bb_end(rq, bb_fail(rq, 404, "Device not found"));
    return *found;
}

int certificate_explain(struct bb_request *rq)
{
    const struct certificate *certificate = rq->state;
    const char *at = bb_arg(rq, "at"), *reason = "noReading", *explanation = "";
    struct bb_device device = explain_find_device(rq, bb_arg(rq, "deviceId"));
    const struct bb_rows *rows = bb_query_or_end(
        rq, &explain,
        BB_ARGS(bb_i(device.id), bb_t(at), bb_i(certificate->settings->threshold), bb_i(LISTED)));
    const struct bb_rows *others =
        bb_query_or_end(rq, &discarded, BB_ARGS(bb_i(device.id), bb_t(at), bb_i(DISCARDED)));
    json_t *group = json_null(), *cycle = json_null();
    size_t count = bb_cell(rq, rows, 0, READING) ? bb_count(rq, rows) : 0;

    if (bb_cell(rq, rows, 0, GROUP)) {
        group = bb_row_fields(rq, rows, 0, GROUP, certificate_group_fields, 5);
        cycle = BB_ROW_FIELDS(rq, rows, 0, CYCLE_OF, certificate_cycle_fields);
    }
    for (size_t i = 0; i < count; i++)
        if (bb_cell_int(rq, rows, i, COVERS))
            reason = bb_cell(rq, rows, i, REASON);
    if (!strcmp(reason, "noReading") && bb_count(rq, others))
        reason = bb_cell(rq, others, 0, 0);
    for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
        if (!strcmp(reasons[i][0], reason))
            explanation = reasons[i][1];
    return bb_reply(
        rq, 200,
        json_pack(
            "{s:I, s:s?, s:s, s:s, s:o, s:o, s:o, s:o}", "deviceId", (json_int_t)device.id,
            "externalId", device.external_id, "reason", reason, "explanation", explanation, "group",
            group, "cycle", cycle, "readings",
            bb_rows_fields(rq, rows, count, READING, certificate_reading_fields, 8), "discarded",
            bb_rows_fields(rq, others, bb_count(rq, others), 0, certificate_discarded_fields, 8)));
}

/* ---- a period ---- */

/* clang-format off */

/* $1 and $2 the period, may be null, $3 commissioning or null, $4 maximum number of days */
static const struct bb_sql period = {
    "SELECT " BB_SQL_MS("p.first") ", " BB_SQL_MS("p.last") ", (p.first < p.last)::int,"
    " (p.last - p.first <= make_interval(hours => $4::int * 24 + 1))::int FROM (SELECT"
    " coalesce($1::timestamptz, greatest($3::timestamptz,"
    " coalesce($2::timestamptz, now()) - make_interval(days => $4::int))) AS first,"
    " coalesce($2::timestamptz, now()) AS last) p",
    0};

/* $1 device, $2 and $3 the period in ms, $4 number of rows, $5 threshold */
#define JUDGED                                                                                     \
    "certificate_judge($1::bigint, to_timestamp($2::bigint / 1000.0),"                             \
    " to_timestamp($3::bigint / 1000.0), $5::bigint)"
static const struct bb_sql sums = {
    "SELECT reason, count(*), sum(wh)::bigint, 'Wh' FROM " JUDGED
    " GROUP BY reason ORDER BY reason LIMIT $4::int",
    BB_SQL_LONG};

static const struct bb_sql left_out = {
    "SELECT " TYPE_NAME("type") ", " BB_SQL_MS("start_at") ", " BB_SQL_MS("end_at") ", wh,"
    " 'Wh', reason, entries::text FROM " JUDGED
    " WHERE reason IN ('beforeGroup', 'longerThanCycle', 'aboveCeiling', 'inNoGroup')"
    " ORDER BY end_at LIMIT $4::int",
    BB_SQL_LONG};

static const struct bb_sql gaps = {
    "WITH p AS (SELECT to_timestamp($2::bigint / 1000.0) AS first,"
    " to_timestamp($3::bigint / 1000.0) AS last),"
    " b AS (SELECT b.start_at, b.end_at FROM p, reading_between($1::bigint, p.first, p.last) b"
    " UNION ALL SELECT last, last FROM p)"
    " SELECT " BB_SQL_MS("g.since") ", " BB_SQL_MS("g.start_at") " FROM (SELECT"
    " greatest(p.first, coalesce(lag(b.end_at) OVER (ORDER BY b.start_at, b.end_at), p.first))"
    " AS since, b.start_at FROM p, b) g"
    " WHERE g.since < g.start_at AND $5::bigint > 0 ORDER BY g.since LIMIT $4::int",
    BB_SQL_LIST};

/* clang-format on */

/* Runs a statement. Returns its rows as a JSON list, which lives as long as the request. */
static json_t *explain_list(struct bb_request *rq, const struct bb_sql *sql,
                            const struct bb_value *values, const struct bb_field *fields,
                            size_t count)
{
    const struct bb_rows *rows = bb_query_or_end(rq, sql, values, 5);

    return bb_hold(rq, bb_rows_fields(rq, rows, bb_count(rq, rows), 0, fields, count));
}

int certificate_coverage(struct bb_request *rq)
{
    const struct certificate *certificate = rq->state;
    struct bb_device device = explain_find(rq, bb_segment(rq, "externalId"));
    const struct bb_rows *rows =
        bb_query_or_end(rq, &period,
                        BB_ARGS(bb_t(bb_arg(rq, "from")), bb_t(bb_arg(rq, "to")),
                                bb_t(device.commissioned), bb_i(COVERAGE_DAYS)));
    int64_t first = bb_cell_int(rq, rows, 0, 0), last = bb_cell_int(rq, rows, 0, 1);

    if (!bb_cell_int(rq, rows, 0, 2))
        return bb_invalid(rq, "to", "must be later than from");
    if (!bb_cell_int(rq, rows, 0, 3))
        return bb_invalid(rq, "to", "must be at most 366 days after from");
    const struct bb_value values[] = {bb_i(device.id), bb_i(first), bb_i(last), bb_i(LISTED),
                                      bb_i(certificate->settings->threshold)};
    json_t *sum = explain_list(rq, &sums, values, certificate_sum_fields, 4);
    json_t *gap = explain_list(rq, &gaps, values, certificate_gap_fields, 2);
    json_t *others = explain_list(rq, &left_out, values, certificate_reading_fields, 7);

    return bb_reply(rq, 200,
                    json_pack("{s:I, s:s?, s:s, s:s, s:O, s:O, s:O}", "deviceId",
                              (json_int_t)device.id, "externalId", device.external_id, "from",
                              bb_time_text(rq, first), "to", bb_time_text(rq, last), "sums", sum,
                              "gaps", gap, "notCertified", others));
}
