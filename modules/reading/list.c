/*
 * GET /api/meter-reads/new/:externalId, sorted by end.
 *
 * A cursor is "<end in ms>-<type>" of the last reading seen. Each type is one scan of the primary
 * key; the two scans are merged.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "modules/reading/base/reading.h"
#include "modules/reading/rules/unit.h"

#define PAGE 1000
#define MANY 200 /* longer pages use a long statement */

/*
 * $1 device, $2 type or null, $3 start, $4 end, $5 $6 end and type of the last reading seen, $7
 * number of readings
 */
#define BRANCH(letter)                                                                             \
    "(SELECT r.type, r.start_at, r.end_at, r.wh, r.created_at FROM reading r"                      \
    " WHERE r.device = $1::bigint AND r.type = '" letter "'"                                       \
    " AND coalesce($2::text, '" letter "') = '" letter "' AND r.end_at > reading_time($3::bigint)" \
    " AND r.end_at <= reading_time($4::bigint) AND r.end_at >= reading_time($5::bigint)"           \
    " AND (r.end_at > reading_time($5::bigint) OR '" letter "' > $6::text)"                        \
    " ORDER BY r.end_at LIMIT $7::bigint)"

#define LIST                                                                                       \
    "SELECT r.type, " READING_MS("r.start_at") ", " READING_MS("r.end_at") ", r.wh, " READING_MS(  \
        "r.created_at") " FROM (" BRANCH("D") " UNION ALL " BRANCH("H") ") r ORDER BY r.end_at, "  \
                                                                        "r.type LIMIT $7::bigint"

static const struct bb_sql list_few = {LIST, 0}, list_long = {LIST, BB_SQL_LONG};

enum column { TYPE, START, END, WH, CREATED };

static int64_t time_arg(struct bb_request *rq, const char *name, int64_t absent)
{
    const char *text = bb_arg(rq, name);
    struct moment moment;

    return text && moment_parse(text, &moment) == 0 ? moment.ms : absent;
}

int reading_range(struct bb_request *rq, struct reading_range *range)
{
    const char *type = bb_arg(rq, "type");

    *range = (struct reading_range){.start = time_arg(rq, "start", READING_EARLIEST),
                                    .end = time_arg(rq, "end", READING_LATEST)};
    if (type && !unit_type(type))
        return bb_invalid(rq, "type", "must be History or Delta");
    if (type)
        range->type = unit_type(type) == 'H' ? "H" : "D";
    return 0;
}

/* Returns 0, or the status of the 400 response sent. */
static int read_cursor(struct bb_request *rq, struct reading_cursor *cursor)
{
    const char *after = bb_arg(rq, "after");
    char *end = NULL;

    *cursor = (struct reading_cursor){.end = READING_EARLIEST, .type = ""};
    if (!after)
        return 0;
    errno = 0;
    cursor->end = strtoll(after, &end, 10);
    bool good =
        end != after && !errno && cursor->end >= READING_EARLIEST && cursor->end <= READING_LATEST;

    if (!good || end[0] != '-' || (end[1] != 'H' && end[1] != 'D') || end[2])
        return bb_invalid(rq, "after", "must be a cursor that a Link header gave");
    cursor->type = end[1] == 'H' ? "H" : "D";
    return 0;
}

struct reading_row reading_row_of(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return (struct reading_row){.type = bb_cell(rq, rows, row, TYPE)[0],
                                .start = bb_cell_int(rq, rows, row, START),
                                .end = bb_cell_int(rq, rows, row, END),
                                .wh = bb_cell_int(rq, rows, row, WH),
                                .created = bb_cell_int(rq, rows, row, CREATED)};
}

static const struct bb_rows *fetch(struct bb_request *rq, const struct bb_sql *sql, int64_t device,
                                   const struct reading_range *range,
                                   const struct reading_cursor *cursor, int64_t limit)
{
    return bb_query(rq, sql,
                    BB_ARGS(bb_i(device), bb_t(range->type), bb_i(range->start), bb_i(range->end),
                            bb_i(cursor->end), bb_t(cursor->type), bb_i(limit)));
}

const struct bb_rows *reading_fetch_long(struct bb_request *rq, int64_t device,
                                         const struct reading_range *range,
                                         const struct reading_cursor *cursor, int64_t limit)
{
    return fetch(rq, &list_long, device, range, cursor, limit);
}

static int answer(struct bb_request *rq, const struct bb_rows *rows, size_t limit)
{
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);

    if (count < bb_count(rq, rows) &&
        bb_reply_next(rq, bb_format(rq, "%s-%s", bb_cell(rq, rows, count - 1, END),
                                    bb_cell(rq, rows, count - 1, TYPE))) < 0)
        return bb_failed(rq);
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++) {
        struct reading_row row = reading_row_of(rq, rows, i);

        if (json_array_append_new(
                array, reading_json(rq, row.type, row.start, row.end, row.wh, row.created))) {
            json_decref(array);
            return bb_no_memory(rq);
        }
    }
    return bb_reply(rq, 200, array);
}

int reading_list(struct bb_request *rq)
{
    int64_t limit = bb_arg_int(rq, "limit", PAGE);
    struct bb_device device;
    struct reading_range range;
    struct reading_cursor cursor = {.end = READING_EARLIEST, .type = ""};
    int refused = reading_range(rq, &range);

    const char *kind = bb_arg(rq, "voided");
    bool voided = kind && !strcmp(kind, "true");

    if (!refused && !voided)
        refused = read_cursor(rq, &cursor);
    if (!refused)
        refused = reading_device(rq, bb_arg_int(rq, "organizationId", 0), &device);
    if (refused)
        return refused;
    if (voided)
        return reading_list_voided(rq, &device, &range, limit);
    const struct bb_rows *rows =
        fetch(rq, limit > MANY ? &list_long : &list_few, device.id, &range, &cursor, limit + 1);

    return rows ? answer(rq, rows, (size_t)limit) : bb_failed(rq);
}

/* ---- GET /api/meter-reads/latestread/:externalId: one row, however many readings there are ----
 */

#define LATEST_START READING_MS("d.latest_start")
#define LATEST_END READING_MS("d.latest_end")
#define LATEST_AT READING_MS("d.latest_at")
#define LATEST(id)                                                                                 \
    "SELECT d.type, " LATEST_START " AS starts, " LATEST_END " AS ends, d.latest_wh, " LATEST_AT   \
    " AS at"                                                                                       \
    " FROM reading_device d WHERE d.device = " id " ORDER BY d.latest_end DESC, d.type LIMIT 1"
#define DEVICES BB_KEYS_1("bigint")
#define LATEST_OF_DEVICE LATEST("k.device")

static const struct bb_keyed latest = {
    {LATEST("$1::bigint"), BB_SQL_KEYED},
    {"SELECT l.*, k.i FROM " DEVICES " k(device, i) CROSS JOIN LATERAL (" LATEST_OF_DEVICE ") l",
     0},
};

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
    return bb_reply(rq, 200,
                    reading_json(rq, bb_cell(rq, rows, 0, 0)[0], bb_cell_int(rq, rows, 0, 1),
                                 bb_cell_int(rq, rows, 0, 2), bb_cell_int(rq, rows, 0, 3),
                                 bb_cell_int(rq, rows, 0, 4)));
}
