/* GET /api/meter-reads/new/:externalId/export.csv: streams a device's readings, by their end. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "modules/common/csv.h"
#include "modules/common/pieces.h"
#include "modules/common/slots.h"
#include "modules/reading/base/reading.h"

#define NAME_ROOM 1100           /* bytes: 255 characters and the NUL */
#define PAGE 1000                /* rows */
#define READY_BYTES (256 * 1024) /* that may wait for the client */

struct reading_export {
    int64_t account; /* holds a slot for this account */
    int64_t device;
    char name[NAME_ROOM]; /* its externalId when the export began; "": none */
    int64_t start, end;
    char type[2]; /* "": both */
    int64_t after_end;
    char after_type[2];
};

static void head(struct csv *csv)
{
    static const char *const columns[] = {"id",    "deviceId", "externalId", "startDate", "endDate",
                                          "value", "unit",     "type",       "createdAt"};

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        csv_plain(csv, columns[i]);
    csv_end_row(csv);
}

static const char *number(struct bb_request *rq, int64_t value)
{
    return bb_format(rq, "%" PRId64, value);
}

static void put_row(struct bb_request *rq, struct csv *csv, const struct reading_export *export,
                    const struct reading_row *row)
{
    csv_plain(csv, number(rq, reading_id(row->type, row->end)));
    csv_plain(csv, number(rq, export->device));
    csv_text(csv, export->name);
    csv_plain(csv, bb_time_text(rq, row->start));
    csv_plain(csv, bb_time_text(rq, row->end));
    csv_plain(csv, number(rq, row->wh));
    csv_plain(csv, "Wh");
    csv_plain(csv, row->type == 'H' ? "History" : "Delta");
    csv_plain(csv, bb_time_text(rq, row->created));
    csv_end_row(csv);
}

/* Returns the number of rows written, which is less than PAGE at the end; -1: failed. */
static int64_t write_page(struct bb_request *rq, struct csv *csv, struct reading_export *export)
{
    const struct reading_range range = {
        .type = *export->type ? export->type : NULL, .start = export->start, .end = export->end};
    const struct reading_cursor cursor = {.end = export->after_end, .type = export->after_type};
    const struct bb_rows *rows = reading_fetch_long(rq, export->device, &range, &cursor, PAGE);
    size_t count = rows ? bb_count(rq, rows) : 0;

    for (size_t i = 0; i < count; i++) {
        struct reading_row row = reading_row_of(rq, rows, i);

        put_row(rq, csv, export, &row);
        export->after_end = row.end;
        export->after_type[0] = row.type;
    }
    return rows ? (int64_t)count : -1;
}

static enum pieces_next send_page(struct bb_request *rq, struct pieces *pieces, void *arg)
{
    struct csv *csv = bb_alloc(rq, sizeof(*csv));

    bb_defer(rq, csv_drop, csv);
    int64_t count = write_page(rq, csv, arg);

    if (count < 0 || csv->failed || pieces_send(pieces, csv->bytes, csv->length))
        return PIECES_CUT;
    return count < PAGE ? PIECES_WHOLE : PIECES_MORE;
}

static void drop(struct bb_host *host, void *arg)
{
    const struct reading *state = host->state;
    struct reading_export *export = arg;

    slot_release(state->exports, export->account);
    free(export);
}

static int begin(struct bb_request *rq, struct reading_export *export)
{
    static const struct pieces_source source = {.type = "text/csv; charset=utf-8",
                                                .name = "readings.csv",
                                                .ready = READY_BYTES,
                                                .work = send_page,
                                                .drop = drop};
    struct csv csv = {.failed = false};

    head(&csv);
    int status = pieces_begin(rq, &source, export, csv.failed ? NULL : csv.bytes, csv.length);

    csv_drop(&csv);
    return status;
}

/* The caller holds the slot. Returns NULL if out of memory. */
static struct reading_export *new_export(struct bb_request *rq, const struct bb_device *device,
                                         const struct reading_range *range)
{
    struct reading_export *export = calloc(1, sizeof(*export));

    if (!export)
        return NULL;
    export->account = rq->principal->account;
    export->device = device->id;
    export->start = range->start;
    export->end = range->end;
    export->after_end = READING_EARLIEST;
    if (range->type)
        export->type[0] = *range->type;
    if (device->external_id && strlen(device->external_id) < sizeof(export->name))
        strcpy(export->name, device->external_id);
    return export;
}

int reading_export(struct bb_request *rq)
{
    const struct reading *state = rq->state;
    struct bb_device device;
    struct reading_range range;
    int refused = reading_range(rq, &range);

    if (!refused)
        refused = reading_device(rq, bb_arg_int(rq, "organizationId", 0), &device);
    if (!refused)
        refused = slot_take(rq, state->exports);
    if (refused)
        return refused;
    struct reading_export *export = new_export(rq, &device, &range);

    if (export)
        return begin(rq, export);
    slot_release(state->exports, rq->principal->account);
    return bb_no_memory(rq);
}
