/*
 * /api/certificate-log: lists of entries (newest first, by the start of the certified period), one
 * entry, its outcome, sums, and the export. A cursor of the list is "<start in ms>-<id>" of the
 * last entry seen.
 *
 * A filter may select devices by properties that the module device stores. If few devices match, a
 * first statement returns their ids, and a second one searches the entries of each device.
 * Otherwise the statement checks the device of each entry.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/certificate/certificate.h"
#include "modules/common/pieces.h"

#define PAGE 100
#define EXPORT_PAGE 1000
#define FEW_DEVICES 64       /* with up to this number of devices, each device is searched */
#define FEW_ORGANIZATIONS 16 /* with more, fetch_many is used (a page is read for each) */
#define FEW_ENTRIES 50       /* larger pages use fetch_many */

/* Limits of times in responses, in ms since 1970: the years 1 to 9999. */
#define EARLIEST INT64_C(-62135596800000)
#define LATEST INT64_C(253402300800000)

/* ---- entries ---- */

int64_t *certificate_ids(struct bb_request *rq, const struct bb_rows *rows, size_t count,
                         size_t column)
{
    int64_t *ids = bb_alloc(rq, (count + 1) * sizeof(*ids));

    for (size_t i = 0; i < count; i++)
        ids[i] = bb_cell_int(rq, rows, i, column);
    return ids;
}

/* ---- filters ---- */

enum text {
    FROM_TIME,
    BEFORE_TIME,
    IN_STATUS,
    OF_KEY, /* externalId or uuid; from here on, properties of devices */
    OF_COUNTRY,
    OF_OTHER, /* the 3-letter code of the country; OF_COUNTRY is the 2-letter code */
    OF_FUEL,
    OF_TYPE,
    CHOSEN, /* array of the ids of at most FEW_DEVICES devices with these properties; or NULL */
    TEXTS
};

struct filter {
    struct scope scope;
    int64_t device, group;      /* 0: any */
    int64_t least_wh, most_wh;  /* INT64_MIN and INT64_MAX: any */
    const char *text[TEXTS];    /* NULL: any */
    int64_t after_ms, after_id; /* the list's cursor */
};

/* $1 and $2 scope, $3 to $7 the properties, $8 number of devices */
static const struct bb_sql choose = {
    "SELECT coalesce(array_agg(c.id), '{}')::text, count(*) FROM (SELECT d.id FROM device_chosen("
    "CASE WHEN $1::boolean THEN NULL ELSE $2::bigint[] END, $3::text, $4::text, $5::text, $6::text,"
    " $7::text) d (id) LIMIT $8::bigint) c",
    BB_SQL_LONG};

/* Returns whether the statement must check the properties of devices. */
static bool log_filter_chooses(const struct filter *filter)
{
    bool any = false;

    for (size_t i = OF_KEY; i < CHOSEN; i++)
        any = any || filter->text[i];
    return any && !filter->text[CHOSEN];
}

/* Reads the filter from the query. */
static struct filter log_filter_read(struct bb_request *rq)
{
    static const char *const names[TEXTS] = {
        [FROM_TIME] = "start",   [BEFORE_TIME] = "end",  [IN_STATUS] = "status",
        [OF_KEY] = "externalId", [OF_FUEL] = "fuelCode", [OF_TYPE] = "deviceTypeCode",
    };
    const struct certificate *certificate = rq->state;
    const char *country = bb_arg(rq, "countryCode");
    struct filter filter = {
        .scope = scope_asked(rq),
        .device = bb_arg_int(rq, "deviceId", 0),
        .group = bb_arg_int(rq, "groupId", 0),
        .least_wh = bb_arg_int(rq, "minWatthour", INT64_MIN),
        .most_wh = bb_arg_int(rq, "maxWatthour", INT64_MAX),
        .after_ms = LATEST,
        .after_id = INT64_MAX,
    };
    const char **text = filter.text;

    for (size_t i = 0; i < TEXTS; i++)
        text[i] = names[i] ? bb_arg(rq, names[i]) : NULL;
    if (country)
        certificate->devices->country_codes(certificate->devices_state, rq, country,
                                            &text[OF_COUNTRY]);
    certificate_shared(rq, filter.group, &filter.scope);
    if (!log_filter_chooses(&filter))
        return filter;
    const struct bb_rows *rows =
        bb_query_or_end(rq, &choose,
                        BB_ARGS(SCOPE_ARGS(&filter.scope), bb_t(text[OF_KEY]),
                                bb_t(text[OF_COUNTRY]), bb_t(text[OF_OTHER]), bb_t(text[OF_FUEL]),
                                bb_t(text[OF_TYPE]), bb_i(FEW_DEVICES + 1)));

    if (bb_cell_int(rq, rows, 0, 1) <= FEW_DEVICES)
        text[CHOSEN] = bb_cell(rq, rows, 0, 0);
    return filter;
}

/* How a statement finds the entries: by the first of these keys that the filter has. */
enum way { BY_DEVICE, BY_CHOSEN, BY_GROUP, BY_ORGANIZATION, BY_TIME, WAYS };

static enum way log_filter_way(const struct filter *filter)
{
    if (filter->device)
        return BY_DEVICE;
    if (filter->text[CHOSEN])
        return BY_CHOSEN;
    if (filter->group)
        return BY_GROUP;
    return filter->scope.all ? BY_TIME : BY_ORGANIZATION;
}

/*
 * Runs a statement with these parameters: $1 and $2 scope, $3 device, $4 from, $5 before, $9 group,
 * $10 status, $11 lowest and $12 highest Wh, $13 whether to ignore $14 to $18, the properties of
 * devices, $19 the selected devices. Each statement defines $6 to $8 itself.
 */
static const struct bb_rows *log_filter_query(struct bb_request *rq, const struct filter *filter,
                                              const struct bb_sql *sql, struct bb_value sixth,
                                              int64_t seventh, int64_t limit)
{
    const char *const *text = filter->text;

    return bb_query_or_end(
        rq, sql,
        BB_ARGS(SCOPE_ARGS(&filter->scope), filter->device ? bb_i(filter->device) : bb_null(),
                bb_t(text[FROM_TIME]), bb_t(text[BEFORE_TIME]), sixth, bb_i(seventh), bb_i(limit),
                filter->group ? bb_i(filter->group) : bb_null(), bb_t(text[IN_STATUS]),
                bb_i(filter->least_wh), bb_i(filter->most_wh), bb_b(!log_filter_chooses(filter)),
                bb_t(text[OF_KEY]), bb_t(text[OF_COUNTRY]), bb_t(text[OF_OTHER]),
                bb_t(text[OF_FUEL]), bb_t(text[OF_TYPE]), bb_t(text[CHOSEN])));
}

/* clang-format off */

/*
 * The filter's condition on entries `e` in a statement that reads only entries of the devices $19.
 * Because of the OR, device_chosen() is called only if needed, and once.
 */
#define NARROW_CHOSEN                                                                              \
    " AND ($9::bigint IS NULL OR e.group_id = $9::bigint)"                                         \
    " AND ($10::text IS NULL OR e.status = $10::text)"                                             \
    " AND e.wh BETWEEN $11::bigint AND $12::bigint"                                                \
    " AND ($13::boolean OR e.device IN (SELECT device_chosen(CASE WHEN $1::boolean THEN NULL"      \
    " ELSE $2::bigint[] END, $14::text, $15::text, $16::text, $17::text, $18::text)))"
/* The filter's condition for a statement that reads entries of any device. */
#define NARROW NARROW_CHOSEN " AND ($19::bigint[] IS NULL OR e.device = ANY ($19::bigint[]))"

/* One sub-select suffices, because all entries of a device or group have the same organization. */
#define SEES_DEVICE                                                                                \
    "($1::boolean OR (SELECT o.organisation FROM certificate_entry o WHERE o.device = $3::bigint"  \
    " LIMIT 1) = ANY($2::bigint[]))"
#define SEES_GROUP                                                                                 \
    "($1::boolean OR (SELECT g.organisation FROM certificate_group g WHERE g.id = $9::bigint)"     \
    " = ANY($2::bigint[])) AND $3::bigint IS NULL AND e.group_id > 0"

/* ---- lists ---- */

/*
 * $6 and $7 cursor, $8 number of entries. Each `enum way` has its own statement and index. The
 * statement reads little more than it returns, unless the filter has a condition without an index.
 *
 * If the index begins with a device, group or organization, the row comparison of the range begins
 * with this column, too. With a separate equality, PostgreSQL might use the index of times instead,
 * and read the entries of all organizations.
 */
#define CURSOR_AT "to_timestamp($6::bigint / 1000.0)"
#define NEWEST "e.start_at DESC, e.id DESC"
#define WITHIN(columns, values, order, condition)                                                  \
    "(" columns "e.start_at, e.id) < (" values "least($5::timestamptz, " CURSOR_AT "),"            \
    " CASE WHEN $5::timestamptz <= " CURSOR_AT " THEN 0 ELSE $7::bigint END)"                      \
    " AND (" columns "e.start_at, e.id) >= (" values "coalesce($4::timestamptz, '-infinity'), 0)"  \
    condition " ORDER BY " order NEWEST " LIMIT $8::bigint"
#define FETCH(from)                                                                                \
    "SELECT " CERTIFICATE_COLUMNS " FROM (" from ") e" CERTIFICATE_OF_ENTRY " ORDER BY " NEWEST
#define OF_ALL(condition) FETCH("SELECT * FROM certificate_entry e WHERE " condition)
/* Selects the $8 newest entries for each of the ids, and then the $8 newest of these entries. */
#define OF_EACH(ids, condition)                                                                    \
    FETCH("SELECT e.* FROM (SELECT DISTINCT unnest(" ids ") AS id) o CROSS JOIN LATERAL"           \
          " (SELECT * FROM certificate_entry e WHERE " condition ") e"                             \
          " WHERE $3::bigint IS NULL ORDER BY " NEWEST " LIMIT $8::bigint")

#define FETCHES(flags)                                                                             \
    {                                                                                              \
        [BY_DEVICE] = {OF_ALL(SEES_DEVICE " AND " CERTIFICATE_SEES " AND "                         \
            WITHIN("e.device, ", "$3::bigint, ", "e.device DESC, ", NARROW)), flags},              \
        [BY_CHOSEN] = {OF_EACH("$19::bigint[]",                                                    \
            WITHIN("e.device, ", "o.id, ", "e.device DESC, ",                                      \
                   " AND " CERTIFICATE_SEES NARROW_CHOSEN)), flags},                               \
        [BY_GROUP] = {OF_ALL(SEES_GROUP " AND "                                                    \
            WITHIN("e.group_id, ", "$9::bigint, ", "e.group_id DESC, ", NARROW)), flags},          \
        [BY_ORGANIZATION] = {OF_EACH("$2::bigint[]",                                               \
            WITHIN("e.organisation, ", "o.id, ", "e.organisation DESC, ",                          \
                   " AND NOT $1::boolean" NARROW)), flags},                                        \
        [BY_TIME] = {OF_ALL("$3::bigint IS NULL AND " CERTIFICATE_SEES " AND "                     \
            WITHIN("", "", "", NARROW)), flags},                                                   \
    }
static const struct bb_sql fetch_few[WAYS] = FETCHES(BB_SQL_REPLICA), fetch_many[WAYS] = FETCHES(BB_SQL_LIST);

/* Statements for entries with a rare status. Their indexes omit entries that succeeded. */
#define RARE "e.status <> 'Succeeded' AND "
static const struct bb_sql fetch_rare[WAYS] = {
    [BY_GROUP] = {OF_ALL(SEES_GROUP " AND " RARE
        WITHIN("e.group_id, e.status, ", "$9::bigint, $10::text, ",
               "e.group_id DESC, e.status DESC, ", NARROW)), BB_SQL_LIST},
    [BY_ORGANIZATION] = {OF_EACH("$2::bigint[]", RARE
        WITHIN("e.organisation, e.status, ", "o.id, $10::text, ",
               "e.organisation DESC, e.status DESC, ", " AND NOT $1::boolean" NARROW)),
        BB_SQL_LIST},
    [BY_TIME] = {OF_ALL("$3::bigint IS NULL AND " CERTIFICATE_SEES " AND " RARE
        WITHIN("e.status, ", "$10::text, ", "e.status DESC, ", NARROW)), BB_SQL_LIST},
};

/* $1 and $2 scope, $3 entry. An entry is also visible if its group is shared with the scope. */
#define SEES_ENTRY                                                                                 \
    "(" CERTIFICATE_SEES " OR EXISTS (SELECT FROM certificate_share s WHERE s.group_id ="          \
    " e.group_id AND s.organisation = ANY ($2::bigint[]))) AND e.id = $3::bigint"
static const struct bb_sql get = {
    "SELECT " CERTIFICATE_COLUMNS " FROM certificate_entry e" CERTIFICATE_OF_ENTRY
    " WHERE " SEES_ENTRY,
    0};
/* Returns the first 10 entries of the certificate of entry $3, and the number of its entries. */
static const struct bb_sql get_certificate = {
    "SELECT " CERTIFICATE_COLUMNS ", " BB_SQL_MS("c.created_at") ", e.entries FROM (SELECT a.*,"
    " count(*) OVER () AS entries FROM certificate_entry e JOIN certificate_entry a"
    " ON a.certificate = e.certificate WHERE " SEES_ENTRY " AND 'Carried' NOT IN (e.status,"
    " a.status) ORDER BY a.id LIMIT 10) e" CERTIFICATE_OF_ENTRY " ORDER BY e.id",
    BB_SQL_LONG};

/* clang-format on */

/* Returns up to `limit` entries after the filter's cursor. */
static const struct bb_rows *log_fetch(struct bb_request *rq, const struct filter *filter,
                                       int64_t limit)
{
    enum way way = log_filter_way(filter);
    const char *status = filter->text[IN_STATUS];
    bool narrow = status || filter->least_wh != INT64_MIN || filter->most_wh != INT64_MAX ||
                  log_filter_chooses(filter) || filter->text[CHOSEN] ||
                  (filter->group && filter->device);
    const struct bb_sql *sql =
        narrow || limit > FEW_ENTRIES || filter->scope.count > FEW_ORGANIZATIONS ? &fetch_many[way]
                                                                                 : &fetch_few[way];

    if (status && strcmp(status, "Succeeded") != 0 && fetch_rare[way].text)
        sql = &fetch_rare[way];
    return log_filter_query(rq, filter, sql, bb_i(filter->after_ms), filter->after_id, limit);
}

int certificate_log(struct bb_request *rq)
{
    size_t limit = (size_t)bb_arg_int(rq, "limit", PAGE);
    const char *after = bb_arg(rq, "after");
    struct filter filter = log_filter_read(rq);
    int length = 0;

    if (after && (sscanf(after, "%18" SCNd64 "-%18" SCNd64 "%n", &filter.after_ms, &filter.after_id,
                         &length) != 2 ||
                  after[length] || filter.after_id <= 0 || filter.after_ms < EARLIEST ||
                  filter.after_ms >= LATEST))
        return bb_invalid(rq, "after", "must be a cursor from a Link header");
    const struct bb_rows *rows = log_fetch(rq, &filter, (int64_t)limit + 1);

    return bb_reply_fields(rq, rows, limit, CERTIFICATE_CURSOR, certificate_entry_fields,
                           CERTIFICATE_ENTRY_FIELDS);
}

#define ENTRY "Certificate log entry"

/* Responds with the entry whose id is in the path, or with 404 if it is not in the scope. */
static int log_reply_entry(struct bb_request *rq, const struct scope *scope)
{
    const struct bb_rows *rows =
        bb_find_or_end(rq, &get, BB_ARGS(SCOPE_ARGS(scope), bb_i(bb_segment_int(rq, "id"))), ENTRY);

    return bb_reply(rq, 200, BB_ROW_FIELDS(rq, rows, 0, 0, certificate_entry_fields));
}

int certificate_one(struct bb_request *rq)
{
    struct scope scope = scope_asked(rq);

    return log_reply_entry(rq, &scope);
}

int certificate_of_entry(struct bb_request *rq)
{
    struct scope scope = scope_asked(rq);
    const struct bb_rows *rows = bb_find_or_end(
        rq, &get_certificate, BB_ARGS(SCOPE_ARGS(&scope), bb_i(bb_segment_int(rq, "id"))), ENTRY);
    json_t *reply = bb_hold(
        rq, bb_row_fields(rq, rows, 0, CERTIFICATE_UID, certificate_fields, CERTIFICATE_FIELDS));

    bb_set(rq, reply, "perDeviceCertificateLog",
           bb_rows_fields(rq, rows, bb_count(rq, rows), 0, certificate_entry_fields,
                          CERTIFICATE_ENTRY_FIELDS));
    bb_set(rq, reply, "createdAt", json_string(bb_cell_time(rq, rows, 0, CERTIFICATE_CURSOR + 1)));
    bb_set(rq, reply, "entries", json_integer(bb_cell_int(rq, rows, 0, CERTIFICATE_CURSOR + 2)));
    return bb_reply(rq, 200, json_incref(reply));
}

/* ---- the outcome at an external issuer ---- */

/*
 * $1 entry, $2 status, $3 whether the issuer is external. Succeeded and Cancelled are final: only
 * the same status can be set again. A carried entry cannot be changed, because it is not issued.
 */
static const struct bb_sql change = {
    "WITH e AS (SELECT id, status FROM certificate_entry WHERE id = $1::bigint FOR UPDATE),"
    " changed AS (UPDATE certificate_entry c SET status = $2::text FROM e WHERE c.id = e.id"
    " AND e.status NOT IN ('Succeeded', 'Cancelled', 'Carried') AND $3::boolean RETURNING c.id)"
    " SELECT e.status, EXISTS (SELECT FROM changed) OR e.status = $2::text FROM e",
    BB_SQL_WRITE};

/* PATCH /api/certificate-log/:id, for Admins and the accounts in certificate.issuers. */
int certificate_change(struct bb_request *rq)
{
    static const struct scope all = {.all = true};
    const struct certificate *certificate = rq->state;
    bool may = rq->principal->role == BB_ROLE_ADMIN;
    size_t i;
    json_t *email;

    json_array_foreach (certificate->settings->issuers, i, email)
        may = may || !strcmp(json_string_value(email), rq->principal->email);
    if (!may)
        return bb_fail(rq, 403, "Forbidden");
    const struct bb_rows *rows =
        bb_find_or_end(rq, &change,
                       BB_ARGS(bb_i(bb_segment_int(rq, "id")), bb_t(bb_text(rq, "status")),
                               bb_b(!certificate->internal)),
                       ENTRY);

    if (certificate->internal)
        return bb_fail(rq, 409,
                       "Certificates are issued internally (setting certificate.issuer), "
                       "so their status cannot be changed");
    const char *status = bb_cell(rq, rows, 0, 0);

    if (!bb_cell_int(rq, rows, 0, 1))
        return bb_fail(rq, 409, "The entry is %s, which %s", status,
                       strcmp(status, "Carried") != 0 ? "is final" : "is not issued yet");
    return log_reply_entry(rq, &all);
}

/* ---- sums ---- */

/* clang-format off */

/* $6 device, group or month, $7 last key seen, $8 number of rows */
#define KEY                                                                                        \
    "CASE $6::text WHEN 'device' THEN e.device WHEN 'group' THEN coalesce(e.group_id, 0)"          \
    " ELSE (extract(epoch FROM date_trunc('month', e.start_at, 'UTC')) * 1000)::bigint END"
#define SUM(condition) "coalesce(sum(t.wh) FILTER (WHERE " condition "), 0)::bigint"
#define TOTAL(members)                                                                             \
    "json_build_object(" members ", 'entries', t.entries, 'readvalue_watthour', t.wh,"             \
    " 'succeeded_watthour', t.succeeded, 'carried_watthour', t.carried)"
#define TOTALS(from)                                                                               \
    {"SELECT t.key, CASE $6::text WHEN 'device' THEN " TOTAL("'deviceId', t.key, 'externalId',"    \
         " d.uuid, 'developerId', d.external_id, 'serialNumber', d.serial_number")                 \
     " WHEN 'group' THEN " TOTAL("'groupId', nullif(t.key, 0)")                                    \
     " ELSE " TOTAL("'month', " BB_SQL_TIME("to_timestamp(t.key / 1000.0)")) " END"                \
     " FROM (SELECT t.key, count(*) AS entries, sum(t.wh)::bigint AS wh, "                         \
     SUM("t.status = 'Succeeded'") " AS succeeded, " SUM("t.status = 'Carried'") " AS carried"     \
     " FROM (SELECT " KEY " AS key, e.wh, e.status"                                                \
     " FROM certificate_entry e WHERE " from NARROW                                                \
     " AND e.start_at >= coalesce($4::timestamptz, '-infinity')"                                   \
     " AND e.start_at < coalesce($5::timestamptz, 'infinity')) t"                                  \
     " WHERE t.key > $7::bigint GROUP BY t.key ORDER BY t.key LIMIT $8::bigint) t"                 \
     " LEFT JOIN LATERAL (SELECT * FROM device_about(t.key) LIMIT 1) d ON $6::text = 'device'"      \
     " ORDER BY t.key", BB_SQL_LIST}

static const struct bb_sql totals[WAYS] = {
    [BY_DEVICE] = TOTALS("e.device = $3::bigint AND " CERTIFICATE_SEES),
    [BY_CHOSEN] = TOTALS("$3::bigint IS NULL AND " CERTIFICATE_SEES
                         " AND e.device = ANY ($19::bigint[])"),
    [BY_GROUP] = TOTALS(SEES_GROUP " AND e.group_id = $9::bigint"),
    [BY_ORGANIZATION] = TOTALS("NOT $1::boolean AND $3::bigint IS NULL"
                               " AND e.organisation = ANY ($2::bigint[])"),
    [BY_TIME] = TOTALS("$3::bigint IS NULL AND " CERTIFICATE_SEES),
};

/* clang-format on */

static json_t *log_total(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return bb_json_read(rq, bb_cell(rq, rows, row, 1));
}

/*
 * GET /api/certificate-log/totals: sums for each device, each group, or each month (UTC) in which
 * certified periods start. A cursor is the last key seen: the id of a device or group (0 for
 * entries without a group), or the start of a month in ms since 1970.
 */
int certificate_totals(struct bb_request *rq)
{
    size_t limit = (size_t)bb_arg_int(rq, "limit", PAGE);
    const char *by = bb_arg(rq, "by") ? bb_arg(rq, "by") : "month";
    struct filter filter = log_filter_read(rq);
    const struct bb_rows *rows =
        log_filter_query(rq, &filter, &totals[log_filter_way(&filter)], bb_t(by),
                         bb_arg_int(rq, "after", INT64_MIN), (int64_t)limit + 1);

    return bb_reply_rows(rq, rows, limit, 0, log_total);
}

/* ---- the export ---- */

static void log_cell(struct bb_request *rq, struct csv *csv, const struct bb_rows *rows, size_t row,
                     size_t column, enum bb_type type)
{
    if (type == BB_TIME)
        csv_plain(csv, bb_cell_time(rq, rows, row, column));
    else if (type == BB_TEXT)
        csv_text(csv, bb_cell(rq, rows, row, column));
    else
        csv_plain(csv, bb_cell(rq, rows, row, column));
}

static int log_export(struct bb_request *rq, struct csv *csv, void *state)
{
    enum { ORGANIZATION = 2 }; /* the first of the certificate's fields that the entry lacks */
    struct filter *filter = state;
    const struct bb_rows *rows = log_fetch(rq, filter, EXPORT_PAGE);
    size_t count = bb_count(rq, rows);

    if (!count)
        return 0;
    for (size_t row = 0; row < count; row++) {
        for (size_t i = 0; i < CERTIFICATE_ENTRY_FIELDS; i++)
            log_cell(rq, csv, rows, row, i, certificate_entry_fields[i].type);
        csv_text(csv, bb_cell(rq, rows, row, CERTIFICATE_SITE));
        for (size_t i = ORGANIZATION; i < CERTIFICATE_FIELDS; i++)
            log_cell(rq, csv, rows, row, CERTIFICATE_UID + i, certificate_fields[i].type);
        csv_end_row(csv);
    }
    filter->after_ms = bb_cell_int(rq, rows, count - 1, CERTIFICATE_START);
    filter->after_id = bb_cell_int(rq, rows, count - 1, CERTIFICATE_ID);
    return count == EXPORT_PAGE;
}

int certificate_export(struct bb_request *rq)
{
    /* clang-format off */
    static const char *const columns[] = {
        "id", "certificate_issuance_start", "certificate_issuance_end", "readvalue_watthour",
        "status", "externalId", "developerId", "serialNumber", "deviceId", "groupId",
        "certificateTransactionUID", "timezone", "ongoing_start_date", "ongoing_end_date",
        "siteName", "organizationId", "certificate_start", "certificate_end", "issued_watthour",
        NULL};
    /* clang-format on */
    static const struct pieces_source source = {
        .name = "certificate-log.csv", .columns = columns, .write = log_export};
    const struct certificate *certificate = rq->state;
    struct filter filter = log_filter_read(rq);

    /* Copies the filter with its organizations and texts into one block. */
    size_t ids = filter.scope.count * sizeof(int64_t), room = sizeof(filter) + ids;

    slot_take(rq, certificate->exports);
    for (size_t i = 0; i < TEXTS; i++)
        room += filter.text[i] ? strlen(filter.text[i]) + 1 : 0;
    struct filter *copy = malloc(room);

    if (copy) {
        int64_t *organizations = (int64_t *)(copy + 1);
        char *at = (char *)organizations + ids;

        *copy = filter;
        memcpy(organizations, filter.scope.organizations, ids);
        copy->scope.organizations = organizations;
        for (size_t i = 0; i < TEXTS; i++)
            if (filter.text[i]) {
                copy->text[i] = at;
                at = stpcpy(at, filter.text[i]) + 1;
            }
    }
    return pieces_begin(rq, certificate->exports, &source, copy);
}
