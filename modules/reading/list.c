/*
 * The readings of a device: GET /api/meter-reads/new/:externalId and /latestread/:externalId, the
 * export, and DELETE /new/:externalId/:readingId, which voids a wrong reading.
 *
 * Readings are sorted by end. A cursor is "<end in ms>-<type>" of the last reading seen. Each type
 * is one scan of the primary key; the two scans are merged.
 *
 * A voided reading does not count any more. It is kept, with the reason and the account that voided
 * it; GET with voided=true lists the voided readings of a device, newest first. A reading's id is
 * computed from its type and its end, which are its key, so no two valid readings have the same id.
 * A voided reading may have the id of the reading that replaced it. Only an Admin may void a
 * reading that a certificate has used; the module certificate then takes the energy back.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/common/pieces.h"
#include "modules/reading/reading.h"

#define PAGE 1000
#define MANY 200         /* longer pages use a long statement */
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
    "SELECT " READING ", " BB_SQL_MS("r.end_at") " || '-' || r.type::text"                         \
    " FROM (" BRANCH("D") " UNION ALL " BRANCH("H") ") r ORDER BY r.end_at, r.type"                \
    " LIMIT $7::bigint"
static const struct bb_sql list_few = {LIST, 0}, list_many = {LIST, BB_SQL_LONG};

/*
 * $1 device, $2 type or null, $3 start, $4 end, $5 upper bound of the numbers, $6 not used, $7
 * number of readings
 */
static const struct bb_sql list_voided = {
    "SELECT " READING ", " BB_SQL_MS("r.voided_at") ", r.email, r.reason, r.id FROM reading_void r"
    " WHERE r.device = $1::bigint AND ($2::text IS NULL OR r.type = $2::text::\"char\")"
    " AND r.end_at > reading_time($3::bigint) AND r.end_at <= reading_time($4::bigint)"
    " AND r.id < $5::bigint AND $6::text IS NOT NULL ORDER BY r.id DESC LIMIT $7::bigint",
    BB_SQL_LONG};

/* Reads one row, however many readings the device has. */
#define LATEST(id)                                                                                 \
    "SELECT " COLUMNS("d.type", "d.latest_start", "d.latest_end", "d.latest_wh", "d.latest_at")    \
    " FROM reading_device d WHERE d.device = " id " ORDER BY d.latest_end DESC, d.type LIMIT 1"
static const struct bb_keyed latest = {
    {LATEST("$1::bigint"), BB_SQL_KEYED},
    {"SELECT l.*, k.i FROM " BB_KEYS_1("bigint") " k(device, i)"
     " CROSS JOIN LATERAL (" LATEST("k.device") ") l", 0},
};

/* $1 device, $2 type, $3 end, $4 account, $5 its e-mail, $6 reason */
static const struct bb_sql make_void = {
    "SELECT " READING " FROM reading_make_void($1::bigint, $2::text::\"char\","
    " reading_time($3::bigint), $4::bigint, $5::text, $6::text) r",
    BB_SQL_WRITE};

/* $1 device, $2 type, $3 start, $4 end. Returns whether the reading was used. */
static const struct bb_sql take_back = {
    "SELECT certificate_void($1::bigint, $2::text::\"char\", reading_time($3::bigint),"
    " reading_time($4::bigint))::int",
    BB_SQL_WRITE};

/* clang-format on */

json_t *reading_json(struct bb_request *rq, char type, int64_t start, int64_t end, int64_t wh,
                     int64_t created)
{
    json_int_t id = (end - READING_EARLIEST) * 2 + (type == 'H');

    return json_pack("{s:I, s:s, s:s, s:I, s:s, s:s, s:s}", "id", id, "startDate",
                     bb_time_text(rq, start), "endDate", bb_time_text(rq, end), "value",
                     (json_int_t)wh, "unit", "Wh", "type", unit_type_name(type), "createdAt",
                     bb_time_text(rq, created));
}

static int64_t list_range_time(struct bb_request *rq, const char *name, int64_t absent)
{
    const char *text = bb_arg(rq, name);
    struct moment moment;

    return text && moment_parse(text, &moment) == 0 ? moment.ms : absent;
}

int reading_range(struct bb_request *rq, struct reading_range *range)
{
    const char *type = bb_arg(rq, "type");
    char letter = type ? unit_type(type) : '\0';

    *range = (struct reading_range){.start = list_range_time(rq, "start", READING_EARLIEST),
                                    .end = list_range_time(rq, "end", READING_LATEST)};
    if (type && !letter)
        return bb_invalid(rq, "type", "must be History or Delta");
    if (letter)
        range->type = letter == 'H' ? "H" : "D";
    return 0;
}

int reading_list(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE), place;
    const char *kind = bb_arg(rq, "voided"), *after = bb_arg(rq, "after");
    bool voided = kind && !strcmp(kind, "true"), good = true;
    char type[2] = "";
    int length = 0;
    struct bb_device device;
    struct reading_range range;
    int refused = reading_range(rq, &range);

    if (refused)
        return refused;
    place = voided ? INT64_MAX : READING_EARLIEST;
    if (after && voided)
        good = sscanf(after, "%18" SCNd64 "%n", &place, &length) == 1 && !after[length];
    else if (after)
        good = sscanf(after, "%18" SCNd64 "-%1[DH]%n", &place, type, &length) == 2 &&
               !after[length] && place >= READING_EARLIEST && place <= READING_LATEST;
    if (!good)
        return bb_invalid(rq, "after", "must be a cursor from a Link header");
    refused = reading_device(rq, bb_arg_int(rq, "organizationId", 0), &device);
    if (refused)
        return refused;
    size_t fields = voided ? STORED + 3 : STORED; /* the next column is the cursor */
    const struct bb_sql *sql = voided ? &list_voided : limit > MANY ? &list_many : &list_few;
    const struct bb_rows *rows =
        bb_query(rq, sql,
                 BB_ARGS(bb_i(device.id), bb_t(range.type), bb_i(range.start), bb_i(range.end),
                         bb_i(place), bb_t(type), bb_i(limit + 1)));

    return rows ? bb_reply_fields(rq, rows, (size_t)limit, fields, reading_fields, fields)
                : bb_failed(rq);
}

int reading_latest(struct bb_request *rq)
{
    struct bb_device device;
    int refused = reading_device(rq, bb_arg_int(rq, "organizationId", 0), &device);

    if (refused)
        return refused;
    const struct bb_rows *rows = bb_query(rq, &latest.one, BB_ARGS(bb_i(device.id)));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "The device has no reading yet");
    return bb_reply(rq, 200, bb_row_fields(rq, rows, 0, 0, reading_fields, STORED));
}

/* ---- voiding ---- */

static int list_void(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct bb_device *device = arg;
    int64_t id = bb_segment_int(rq, "readingId");
    const char *type = id % 2 ? "H" : "D";
    const struct bb_rows *rows =
        bb_tx_query(rq, tx, &make_void,
                    BB_ARGS(bb_i(device->id), bb_t(type), bb_i(id / 2 + READING_EARLIEST),
                            bb_i(rq->principal->account), bb_t(rq->principal->email),
                            bb_t(bb_text(rq, "reason"))));

    if (!rows)
        return bb_failed(rq);
    if (bb_service(rq->host, "certificates").interface) {
        const struct bb_rows *used =
            bb_tx_query(rq, tx, &take_back,
                        BB_ARGS(bb_i(device->id), bb_t(type), bb_i(bb_cell_int(rq, rows, 0, START)),
                                bb_i(bb_cell_int(rq, rows, 0, END))));

        if (!used)
            return bb_failed(rq);
        if (bb_cell_int(rq, used, 0, 0) && rq->principal->role != BB_ROLE_ADMIN)
            return bb_fail(rq, 403, "Forbidden");
    }
    return bb_reply(rq, 200, bb_row_fields(rq, rows, 0, 0, reading_fields, STORED));
}

int reading_void(struct bb_request *rq)
{
    struct bb_device device;
    int refused = reading_device(rq, bb_given_int(rq, "organizationId", 0), &device);

    if (refused)
        return refused;
    int status = bb_transaction(rq, list_void, &device);

    return status ? status : bb_failed(rq);
}

/* ---- the export ---- */

struct reading_exported {
    int64_t device;
    char name[NAME_ROOM]; /* its externalId when the export began; "": none */
    struct reading_range range;
    int64_t after_end; /* end of the last reading seen */
    char after_type[2];
};

static int list_export(struct bb_request *rq, struct csv *csv, void *arg)
{
    struct reading_exported *state = arg;
    const struct reading_range *range = &state->range;
    const char *device = bb_format(rq, "%" PRId64, state->device);
    const struct bb_rows *rows = bb_query(
        rq, &list_many,
        BB_ARGS(bb_i(state->device), bb_t(range->type), bb_i(range->start), bb_i(range->end),
                bb_i(state->after_end), bb_t(state->after_type), bb_i(EXPORT_PAGE)));

    if (!rows)
        return -1;
    for (size_t row = 0; row < bb_count(rq, rows); row++) {
        int64_t id = bb_cell_int(rq, rows, row, ID);

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
        state->after_end = id / 2 + READING_EARLIEST;
        state->after_type[0] = id % 2 ? 'H' : 'D';
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
    struct bb_device device;
    struct reading_range range;
    int refused = reading_range(rq, &range);

    if (!refused)
        refused = reading_device(rq, bb_arg_int(rq, "organizationId", 0), &device);
    if (refused)
        return refused;
    slot_take(rq, reading->exports);
    struct reading_exported *state = calloc(1, sizeof(*state));

    if (state) {
        state->device = device.id;
        state->range = range;
        state->after_end = READING_EARLIEST;
        if (device.external_id && strlen(device.external_id) < sizeof(state->name))
            strcpy(state->name, device.external_id);
    }
    return pieces_begin(rq, reading->exports, &source, state);
}
