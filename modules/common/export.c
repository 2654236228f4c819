#include "modules/common/export.h"

#include <stdlib.h>

#include "modules/common/pieces.h"

enum { READY_BYTES = 256 * 1024 }; /* that may wait for the client before a page is read */

struct download {
    struct slots *slots;
    int64_t account; /* holds a slot for this account */
    const struct export_source *source;
    struct pieces_source pieces;
    void *state;
};

static void export_free(struct bb_host *host, void *arg)
{
    struct download *download = arg;

    (void)host;
    slot_release(download->slots, download->account);
    free(download->state);
    free(download);
}

static enum pieces_next export_page(struct bb_request *rq, struct pieces *pieces, void *arg)
{
    const struct download *download = arg;
    struct csv *csv = bb_alloc(rq, sizeof(*csv));

    bb_defer(rq, csv_drop, csv);
    int more = download->source->write(rq, csv, download->state);

    if (more < 0 || csv->failed || pieces_send(pieces, csv->bytes, csv->length))
        return PIECES_CUT;
    return more ? PIECES_MORE : PIECES_WHOLE;
}

int export_begin(struct bb_request *rq, struct slots *slots, const struct export_source *source,
                 void *state)
{
    struct csv csv = {.failed = false};
    int status = slot_take(rq, slots);

    for (const char *const *column = source->columns; column && *column; column++)
        csv_plain(&csv, *column);
    if (source->columns)
        csv_end_row(&csv);
    struct download *download = status || !state || csv.failed ? NULL : malloc(sizeof(*download));

    if (download) {
        *download = (struct download){
            .slots = slots,
            .account = rq->principal->account,
            .source = source,
            .pieces = {.type = "text/csv; charset=utf-8",
                       .name = source->name,
                       .ready = READY_BYTES,
                       .work = export_page,
                       .drop = export_free},
            .state = state,
        };
        status =
            pieces_begin(rq, &download->pieces, download, csv.bytes ? csv.bytes : "", csv.length);
    } else {
        if (!status) {
            slot_release(slots, rq->principal->account);
            status = bb_no_memory(rq);
        }
        free(state);
    }
    csv_drop(&csv);
    return status;
}
