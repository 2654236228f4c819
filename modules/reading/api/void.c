/*
 * DELETE /api/meter-reads/new/:externalId/:readingId: voids a wrong reading, so that it does not
 * count any more. It is kept, with the account that voided it and the reason; GET with voided=true
 * lists the voided readings of a device, newest first.
 *
 * A reading's id is computed from its type and its end, which are its key, so no two valid readings
 * have the same id. A voided reading may have the id of the reading that replaced it. Only an Admin
 * may void a reading that a certificate has used; the module certificate then takes the energy
 * back.
 */
#include <errno.h>
#include <stdlib.h>

#include "modules/reading/base/reading.h"

#define COLUMNS                                                                                    \
    "r.type, " READING_MS("r.start_at") ", " READING_MS("r.end_at") ", r.wh, " READING_MS(         \
        "r.created_at")
enum column { TYPE, START, END, WH, CREATED, VOIDED, EMAIL, REASON, NUMBER };

/* $1 device, $2 type, $3 end, $4 account, $5 its e-mail, $6 reason */
static const struct bb_sql make_void = {
    "SELECT " COLUMNS " FROM reading_make_void($1::bigint, $2::text::\"char\","
    " reading_time($3::bigint), $4::bigint, $5::text, $6::text) r",
    BB_SQL_WRITE};

/* $1 device, $2 type, $3 start, $4 end. Returns whether the reading was used. */
static const struct bb_sql take_back = {
    "SELECT certificate_void($1::bigint, $2::text::\"char\", reading_time($3::bigint),"
    " reading_time($4::bigint))::int",
    BB_SQL_WRITE};

struct voiding {
    struct bb_device device;
    int64_t id;
};

static json_t *reading_of(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return reading_json(rq, bb_cell(rq, rows, row, TYPE)[0], bb_cell_int(rq, rows, row, START),
                        bb_cell_int(rq, rows, row, END), bb_cell_int(rq, rows, row, WH),
                        bb_cell_int(rq, rows, row, CREATED));
}

/* Returns 0, or the status of the response sent: only an Admin may void a used reading. */
static int give_back(struct bb_request *rq, struct bb_tx *tx, const struct voiding *voiding,
                     const struct bb_rows *voided)
{
    if (!bb_service(rq->host, "certificates").interface)
        return 0;
    const struct bb_rows *used = bb_tx_query(
        rq, tx, &take_back,
        BB_ARGS(bb_i(voiding->device.id), bb_t(bb_cell(rq, voided, 0, TYPE)),
                bb_i(bb_cell_int(rq, voided, 0, START)), bb_i(bb_cell_int(rq, voided, 0, END))));

    if (!used)
        return bb_failed(rq);
    if (bb_cell_int(rq, used, 0, 0) && rq->principal->role != BB_ROLE_ADMIN)
        return bb_fail(rq, 403, "Forbidden");
    return 0;
}

static int work(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct voiding *voiding = arg;
    const struct bb_rows *rows =
        bb_tx_query(rq, tx, &make_void,
                    BB_ARGS(bb_i(voiding->device.id), bb_t(voiding->id % 2 ? "H" : "D"),
                            bb_i(voiding->id / 2 + READING_EARLIEST), bb_i(rq->principal->account),
                            bb_t(rq->principal->email), bb_t(bb_text(rq, "reason"))));

    if (!rows)
        return bb_failed(rq);
    int refused = give_back(rq, tx, voiding, rows);

    return refused ? refused : bb_reply(rq, 200, reading_of(rq, rows, 0));
}

int reading_void(struct bb_request *rq)
{
    struct voiding voiding = {.id = bb_segment_int(rq, "readingId")};
    int refused = reading_device(rq, bb_given_int(rq, "organizationId", 0), &voiding.device);

    if (refused)
        return refused;
    int status = bb_transaction(rq, work, &voiding);

    return status ? status : bb_failed(rq);
}

/*
 * $1 device, $2 type or null, $3 start, $4 end, $5 upper bound of the numbers, $6 number of
 * readings
 */
static const struct bb_sql list = {
    "SELECT " COLUMNS
    ", " READING_MS("r.voided_at") ", r.email, r.reason, r.id FROM reading_void r"
                                   " WHERE r.device = $1::bigint AND ($2::text IS NULL OR r.type = "
                                   "$2::text::\"char\")"
                                   " AND r.end_at > reading_time($3::bigint) AND r.end_at <= "
                                   "reading_time($4::bigint)"
                                   " AND r.id < $5::bigint ORDER BY r.id DESC LIMIT $6::bigint",
    BB_SQL_LONG};

static json_t *voided_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    static const struct bb_column more[] = {
        {"voidedAt", BB_COLUMN_TIME, VOIDED},
        {"voidedBy", BB_COLUMN_TEXT, EMAIL},
        {"reason", BB_COLUMN_TEXT, REASON},
    };

    return BB_ROW_ADD(rq, rows, row, more, reading_of(rq, rows, row));
}

int reading_list_voided(struct bb_request *rq, const struct bb_device *device,
                        const struct reading_range *range, int64_t limit)
{
    const char *after = bb_arg(rq, "after");
    char *end = NULL;

    errno = 0;
    int64_t before = after ? strtoll(after, &end, 10) : INT64_MAX;

    if (after && (end == after || *end || errno))
        return bb_invalid(rq, "after", "must be a cursor that a Link header gave");
    const struct bb_rows *rows =
        bb_query(rq, &list,
                 BB_ARGS(bb_i(device->id), bb_t(range->type), bb_i(range->start), bb_i(range->end),
                         bb_i(before), bb_i(limit + 1)));

    return rows ? bb_reply_rows(rq, rows, (size_t)limit, NUMBER, voided_json) : bb_failed(rq);
}
