/*
 * The readings of a device: GET /api/meter-reads/new/:externalId and /latestread/:externalId, the
 * export and sums, and DELETE /new/:externalId/:readingId, which voids a wrong reading.
 *
 * Readings are sorted by end. A cursor is the id of the last reading seen. The primary key is
 * scanned once for each of the types History and Delta; the results are merged.
 *
 * A voided reading does not count any more. It is kept, with the reason and the account that voided
 * it; GET with voided=true lists the voided readings of a device, newest first. A reading's id is
 * computed from its type and its end, which are its key, so no two valid readings have the same id.
 * A voided reading may have the id of the reading that replaced it. Only an Admin may void a
 * reading that a certificate has used; the module certificate then takes the energy back.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "modules/common/pieces.h"
#include "modules/common/scope.h"
#include "modules/reading/reading.h"

#define PAGE 1000
#define MANY 200         /* longer pages use list_many */
#define EXPORT_PAGE 1000 /* rows */
#define NAME_ROOM 1100   /* bytes: 255 characters and the NUL */

/* clang-format off */

/*
 * $1 device, $2 type or null, $3 start, $4 end, $5 and $6 end and type of the last reading seen, $7
 * number of readings
 */
#define BRANCH(letter)                                                                             \
    "(SELECT r.type, r.start_at, r.end_at, r.wh, r.created_at FROM reading r"                      \
    " WHERE r.device = $1::bigint AND r.type = '" letter "'"                                       \
    " AND coalesce($2::text, '" letter "') = '" letter "' AND r.end_at > reading_time($3::bigint)" \
    " AND r.end_at <= reading_time($4::bigint) AND r.end_at >= reading_time($5::bigint)"           \
    " AND (r.end_at > reading_time($5::bigint) OR '" letter "' > $6::text)"                        \
    " ORDER BY r.end_at LIMIT $7::bigint)"
/* Columns in the order of reading_fields. */
#define COLUMNS(type, start, end, wh, created)                                                     \
    "(" BB_SQL_MS(end) " + 62135596800000) * 2 + (" type " = 'H')::int, " BB_SQL_MS(start) ", "    \
    BB_SQL_MS(end) ", " wh ", 'Wh', CASE " type " WHEN 'H' THEN 'History' ELSE 'Delta' END, "      \
    BB_SQL_MS(created)
#define READING COLUMNS("r.type", "r.start_at", "r.end_at", "r.wh", "r.created_at")
enum column { ID, START, END, WH, UNIT, TYPE, CREATED, STORED };

#define LIST                                                                                       \
    "SELECT " READING " FROM (" BRANCH("D") " UNION ALL " BRANCH("H") ") r"                        \
    " ORDER BY r.end_at, r.type LIMIT $7::bigint"
static const struct bb_sql list_few = {LIST, BB_SQL_REPLICA}, list_many = {LIST, BB_SQL_LIST};

/*
 * $1 device, $2 type or null, $3 start, $4 end, $5 reading_void.id of the last row seen, $6 a
 * text that is never null, so it has no effect, $7 number of readings
 */
static const struct bb_sql list_voided = {
    "SELECT " READING ", " BB_SQL_MS("r.voided_at") ", r.email, r.reason, r.id FROM reading_void r"
    " WHERE r.device = $1::bigint AND ($2::text IS NULL OR r.type = $2::text::\"char\")"
    " AND r.end_at > reading_time($3::bigint) AND r.end_at <= reading_time($4::bigint)"
    " AND r.id < $5::bigint AND $6::text IS NOT NULL ORDER BY r.id DESC LIMIT $7::bigint",
    BB_SQL_LIST};

/* Reads the latest reading from reading_device, because a device may have millions of readings. */
#define LATEST(id)                                                                                 \
    "SELECT " COLUMNS("d.type", "d.latest_start", "d.latest_end", "d.latest_wh", "d.latest_at")    \
    " FROM reading_device d WHERE d.device = " id " ORDER BY d.latest_end DESC, d.type LIMIT 1"
static const struct bb_keyed latest = {
    {LATEST("$1::bigint"), BB_SQL_KEYED},
    {"SELECT l.*, k.i FROM " BB_KEYS_1("bigint") " k(device, i)"
     " CROSS JOIN LATERAL (" LATEST("k.device") ") l", 0},
};

/* $1 and $2 scope, $3 ids of devices, separated by commas */
static const struct bb_sql latest_of = {
    "SELECT k.device, l.* FROM (SELECT DISTINCT i::bigint AS device FROM unnest(string_to_array("
    "$3::text, ',')) i) k CROSS JOIN LATERAL device_about(k.device) d"
    " CROSS JOIN LATERAL (" LATEST("k.device") ") l WHERE $1::boolean OR d.organisation = ANY"
    " ($2::bigint[])", BB_SQL_LIST};

/*
 * $1 device, $2 type, $3 end, $4 account, $5 the account's e-mail, $6 reason. The last column is
 * whether the module certificate has created its functions. Its data stays when it is not loaded.
 */
static const struct bb_sql make_void = {
    "SELECT " READING ", (to_regprocedure("
    "'certificate_void(bigint,\"char\",timestamptz,timestamptz)') IS NOT NULL)::int"
    " FROM reading_make_void($1::bigint, $2::text::\"char\","
    " reading_time($3::bigint), $4::bigint, $5::text, $6::text) r",
    BB_SQL_WRITE};

/* $1 device, $2 type, $3 start, $4 end. Returns whether a certificate has used the reading. */
static const struct bb_sql take_back = {
    "SELECT certificate_void($1::bigint, $2::text::\"char\", reading_time($3::bigint),"
    " reading_time($4::bigint))::int",
    BB_SQL_WRITE};

/* clang-format on */

json_t *reading_json(struct bb_request *rq, char type, int64_t start, int64_t end, int64_t wh,
                     int64_t created)
{
    const struct {
        const char *name, *text;
        int64_t number; /* used if text is NULL */
    } members[] = {
        {"id", NULL, (end - READING_EARLIEST) * 2 + (type == 'H')},
        {"startDate", bb_time_text(rq, start), 0},
        {"endDate", bb_time_text(rq, end), 0},
        {"value", NULL, wh},
        {"unit", "Wh", 0},
        {"type", unit_type_name(type), 0},
        {"createdAt", bb_time_text(rq, created), 0},
    };
    json_t *json = json_object();
    int failed = 0;

    /* json_pack() takes twice as long, and a response may have 10,000 readings */
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        failed |= json_object_set_new_nocheck(json, members[i].name,
                                              members[i].text ? json_string_nocheck(members[i].text)
                                                              : json_integer(members[i].number));
    if (!failed)
        return json;
    json_decref(json);
    return NULL;
}

static int64_t list_range_time(struct bb_request *rq, const char *name, int64_t absent)
{
    const char *text = bb_arg(rq, name);
    struct bb_moment moment;

    return text && bb_moment_parse(text, &moment) == 0 ? moment.ms : absent;
}

struct reading_range reading_range(struct bb_request *rq)
{
    const char *type = bb_arg(rq, "type");
    char letter = type ? unit_type(type) : '\0';

    if (type && !letter)
        bb_end(rq, bb_invalid(rq, "type", "must be one of: History, Delta"));
    return (struct reading_range){.type = !letter         ? NULL
                                          : letter == 'H' ? "H"
                                                          : "D",
                                  .start = list_range_time(rq, "start", READING_EARLIEST),
                                  .end = list_range_time(rq, "end", READING_LATEST)};
}

/* The end and the type of a reading, from its id; the id -1 is before all readings. */
#define LIST_END(id) ((id) / 2 + READING_EARLIEST)
#define LIST_TYPE(id) ((id) < 0 ? "" : (id) % 2 ? "H" : "D")

int reading_list(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    const char *kind = bb_arg(rq, "voided");
    bool voided = kind && !strcmp(kind, "true");
    int64_t after = bb_arg_int(rq, "after", voided ? INT64_MAX : -1);
    struct reading_range range = reading_range(rq);
    struct bb_device device = reading_device(rq);
    size_t fields = voided ? STORED + 3 : STORED;
    const struct bb_sql *sql = voided ? &list_voided : limit > MANY ? &list_many : &list_few;
    const struct bb_rows *rows = bb_query_or_end(
        rq, sql,
        BB_ARGS(bb_i(device.id), bb_t(range.type), bb_i(range.start), bb_i(range.end),
                bb_i(voided ? after : LIST_END(after)), bb_t(LIST_TYPE(after)), bb_i(limit + 1)));

    return bb_reply_fields(rq, rows, (size_t)limit, voided ? fields : ID, reading_fields, fields);
}

int reading_latest(struct bb_request *rq)
{
    struct bb_device device = reading_device(rq);
    const struct bb_rows *rows = bb_query_or_end(rq, &latest.one, BB_ARGS(bb_i(device.id)));

    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "The device has no reading yet");
    return bb_reply(rq, 200, bb_row_fields(rq, rows, 0, 0, reading_fields, STORED));
}

int reading_latest_of(struct bb_request *rq)
{
    struct scope scope = scope_asked(rq);
    const char *ids = bb_arg(rq, "deviceIds"), *at = ids;
    size_t digits;

    do {
        at += strspn(at, " ");
        digits = strspn(at, "0123456789");
        at += digits + strspn(at + digits, " ");
        if (!digits || digits > 18 || (*at && *at != ','))
            return bb_invalid(rq, "deviceIds", "must be a whole number");
    } while (*at++);
    const struct bb_rows *rows =
        bb_query_or_end(rq, &latest_of, BB_ARGS(SCOPE_ARGS(&scope), bb_t(ids)));

    return bb_reply_fields(rq, rows, bb_count(rq, rows), 0, reading_latest_fields, STORED + 1);
}

/* ---- voiding ---- */

static int list_void(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct bb_device *device = arg;
    int64_t id = bb_segment_int(rq, "readingId");
    const char *type = LIST_TYPE(id);

    if (LIST_END(id) > READING_LATEST)
        return bb_fail(rq, 404, "Reading not found");
    const struct bb_rows *rows = bb_tx_query_or_end(
        rq, tx, &make_void,
        BB_ARGS(bb_i(device->id), bb_t(type), bb_i(LIST_END(id)), bb_i(rq->principal->account),
                bb_t(rq->principal->email), bb_t(bb_text(rq, "reason"))));

    if (bb_cell_int(rq, rows, 0, STORED)) {
        const struct bb_rows *used = bb_tx_query_or_end(
            rq, tx, &take_back,
            BB_ARGS(bb_i(device->id), bb_t(type), bb_i(bb_cell_int(rq, rows, 0, START)),
                    bb_i(bb_cell_int(rq, rows, 0, END))));

        if (bb_cell_int(rq, used, 0, 0) && rq->principal->role != BB_ROLE_ADMIN)
            return bb_fail(rq, 403, "Forbidden");
    }
    return bb_reply(rq, 200, bb_row_fields(rq, rows, 0, 0, reading_fields, STORED));
}

int reading_void(struct bb_request *rq)
{
    struct bb_device device = reading_device(rq);

    return bb_transaction(rq, list_void, &device);
}

/* ---- the export ---- */

struct reading_exported {
    int64_t device;
    char name[NAME_ROOM]; /* the device's externalId when the export began; "": none */
    struct reading_range range;
    int64_t after; /* id of the last reading seen; -1: none */
};

static int list_export(struct bb_request *rq, struct csv *csv, void *arg)
{
    struct reading_exported *state = arg;
    const struct reading_range *range = &state->range;
    const char *device = bb_format(rq, "%" PRId64, state->device);
    const struct bb_rows *rows = bb_query(
        rq, &list_many,
        BB_ARGS(bb_i(state->device), bb_t(range->type), bb_i(range->start), bb_i(range->end),
                bb_i(LIST_END(state->after)), bb_t(LIST_TYPE(state->after)), bb_i(EXPORT_PAGE)));

    if (!rows)
        return -1;
    for (size_t row = 0; row < bb_count(rq, rows); row++) {
        state->after = bb_cell_int(rq, rows, row, ID);
        csv_plain(csv, bb_cell(rq, rows, row, ID));
        csv_plain(csv, device);
        csv_text(csv, state->name);
        csv_plain(csv, bb_cell_time(rq, rows, row, START));
        csv_plain(csv, bb_cell_time(rq, rows, row, END));
        csv_plain(csv, bb_cell(rq, rows, row, WH));
        csv_plain(csv, bb_cell(rq, rows, row, UNIT));
        csv_plain(csv, bb_cell(rq, rows, row, TYPE));
        csv_plain(csv, bb_cell_time(rq, rows, row, CREATED));
        csv_end_row(csv);
    }
    return bb_count(rq, rows) == EXPORT_PAGE;
}

int reading_export(struct bb_request *rq)
{
    static const char *const columns[] = {"id",    "deviceId", "externalId", "startDate", "endDate",
                                          "value", "unit",     "type",       "createdAt", NULL};
    static const struct pieces_source source = {
        .name = "readings.csv", .columns = columns, .write = list_export};
    const struct reading *reading = rq->state;
    struct reading_range range = reading_range(rq);
    struct bb_device device = reading_device(rq);

    slot_take(rq, reading->exports);
    struct reading_exported *state = calloc(1, sizeof(*state));

    if (state) {
        state->device = device.id;
        state->range = range;
        state->after = -1;
        if (device.external_id && strlen(device.external_id) < sizeof(state->name))
            strcpy(state->name, device.external_id);
    }
    return pieces_begin(rq, reading->exports, &source, state);
}

/*
 * ---- GET /api/meter-reads/new/:externalId/totals: sums by hour, day, month or year of a zone ----
 *
 * A reading counts completely for the span in which it ends; a reading that ends at midnight counts
 * for the previous day. The database sums days, months and years by local dates. The borders of
 * these spans are computed here, because PostgreSQL chooses the second midnight if the clocks show
 * it twice. A cursor is the beginning of the last span seen, in ms since 1970: the instant for
 * hours, or else the local time. Each sum is returned with the ceiling: the most energy that the
 * device can plausibly generate in that span.
 */

/* clang-format off */

/*
 * $1 device, $2 type or null, $3 start, $4 end, $5 length of a span (hour, day, month or year),
 * $6 zone, $7 cursor or null, $8 number of spans
 */
static const struct bb_sql totals = {
    "SELECT " BB_SQL_MS("s.span") ", " BB_SQL_MS("(s.span + ('1 ' || $5::text)::interval)") ","
    " s.wh, 'Wh', s.count FROM (SELECT CASE $5::text"
    " WHEN 'hour' THEN date_trunc('hour', r.end_at - interval '1 microsecond', $6::text)"
    " AT TIME ZONE 'UTC' ELSE date_trunc($5::text,"
    " (r.end_at - interval '1 microsecond') AT TIME ZONE $6::text) END AS span,"
    " sum(r.wh)::bigint AS wh, count(*) AS count FROM reading r"
    " WHERE r.device = $1::bigint AND r.type IN ('D', 'H')"
    " AND ($2::text IS NULL OR r.type = $2::text::\"char\")"
    " AND r.end_at > reading_time($3::bigint) AND r.end_at <= reading_time($4::bigint)"
    " GROUP BY 1) s WHERE $7::bigint IS NULL OR"
    " s.span > reading_time($7::bigint) AT TIME ZONE 'UTC' ORDER BY s.span LIMIT $8::bigint",
    BB_SQL_LIST};

/* clang-format on */

int64_t reading_ceiling(void *state, const struct bb_device *device, int64_t start, int64_t end)
{
    const struct reading *reading = state;
    struct ceiling_device facts = {.capacity_kw = device->capacity_kw, .yield = device->yield};
    struct bb_moment day;

    if (!device->commissioned || bb_moment_parse(device->commissioned, &day) != 0 ||
        !(device->capacity_kw > 0))
        return 0;
    facts.commissioned = day.ms;
    double wh = ceiling_wh(&reading->settings->rule, &facts, start, end);

    return wh < (double)(INT64_MAX / 2) ? (int64_t)wh : INT64_MAX / 2;
}

/* Returns the instant of a border of a span; `zone` is NULL for UTC and for borders of hours. */
static int64_t totals_instant(const struct zone *zone, int64_t border)
{
    return zone ? zone_instant(zone, border) : border;
}

int reading_totals(struct bb_request *rq)
{
    size_t limit = (size_t)bb_arg_int(rq, "limit", PAGE), count;
    const char *by = bb_arg(rq, "by"), *after = bb_arg(rq, "after"), *name = bb_arg(rq, "timezone");
    const struct reading *reading = rq->state;
    struct reading_range range = reading_range(rq);
    struct bb_device device = reading_device(rq);

    if (!name)
        name = device.timezone ? device.timezone : "UTC";
    const struct zone *zone = zones_find(&reading->zones, name);

    if (!zone && strcmp(name, "UTC") != 0)
        return bb_invalid(rq, "timezone",
                          "must be a time zone of the IANA list, such as Europe/Berlin");
    if (by && !strcmp(by, "hour"))
        zone = NULL;
    int64_t cursor = bb_arg_int(rq, "after", 0);

    if (zone && cursor % BB_DAY_MS) /* the instant: a cursor of an earlier version */
        cursor = zone_local(zone, cursor);
    if (after) { /* later spans have only readings that end after the beginning of the last one */
        int64_t seen = totals_instant(zone, cursor);

        range.start = seen > range.start ? seen : range.start;
    }
    const struct bb_rows *rows =
        bb_query_or_end(rq, &totals,
                        BB_ARGS(bb_i(device.id), bb_t(range.type), bb_i(range.start),
                                bb_i(range.end), bb_t(by ? by : "day"), bb_t(name),
                                after ? bb_i(cursor) : bb_null(), bb_i((int64_t)limit + 1)));

    if (bb_page(rq, rows, limit, 0, &count) < 0)
        return bb_failed(rq);
    json_t *list = bb_hold(rq, bb_rows_fields(rq, rows, count, 0, reading_total_fields, 5));

    for (size_t row = 0; row < count; row++) {
        int64_t start = totals_instant(zone, bb_cell_int(rq, rows, row, 0));
        int64_t end = totals_instant(zone, bb_cell_int(rq, rows, row, 1));
        json_t *sum = json_array_get(list, row), *ceiling = json_null();

        if (device.commissioned && device.capacity_kw > 0)
            ceiling = json_integer(reading_ceiling(rq->state, &device, start, end));
        bb_set(rq, sum, "startDate", json_string(bb_time_text(rq, start)));
        bb_set(rq, sum, "endDate", json_string(bb_time_text(rq, end)));
        bb_set(rq, sum, "ceiling", ceiling);
    }
    return bb_reply(rq, 200, json_incref(list));
}
