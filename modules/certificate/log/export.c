/*
 * GET /api/certificate-log/export.csv: streams the log, whatever its length, page by page. The
 * number of exports at a time is limited.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "modules/certificate/log/filter.h"
#include "modules/common/csv.h"
#include "modules/common/pieces.h"
#include "modules/common/slots.h"

#define PAGE 1000                /* entries */
#define READY_BYTES (256 * 1024) /* that may wait for the client */

struct export
{
    int64_t account;                  /* holds a slot for this account */
    struct certificate_filter filter; /* its texts and organizations are copies */
};

static void drop(struct bb_host *host, void *arg)
{
    const struct certificate *certificate = host->state;
    struct export *export = arg;

    slot_release(certificate->exports, export->account);
    free((void *)(uintptr_t) export->filter.scope.organizations);
    for (size_t i = 0; i < CERTIFICATE_TEXTS; i++)
        free((void *)(uintptr_t) export->filter.text[i]);
    free(export);
}

static enum pieces_next send_page(struct bb_request *rq, struct pieces *pieces, void *arg)
{
    struct export *export = arg;
    const struct bb_rows *rows = certificate_fetch_long(rq, &export->filter, PAGE);
    size_t count = rows ? bb_count(rq, rows) : 0;
    const struct bb_device *devices = rows ? certificate_devices(rq, rows, count) : NULL;
    const char **sites = devices ? certificate_sites(rq, rows, count) : NULL;
    struct csv *csv = bb_alloc(rq, sizeof(*csv));

    if (!sites)
        return PIECES_CUT;
    bb_defer(rq, csv_drop, csv);
    for (size_t i = 0; i < count; i++)
        csv_entry(rq, csv, rows, i, &devices[i], sites[i]);
    if (csv->failed || pieces_send(pieces, csv->bytes, csv->length))
        return PIECES_CUT;
    if (count < PAGE)
        return PIECES_WHOLE;
    certificate_move(rq, &export->filter, rows, count - 1);
    return PIECES_MORE;
}

static char *copy(const char *text, bool *failed)
{
    char *copied = text ? strdup(text) : NULL;

    *failed = *failed || (text && !copied);
    return copied;
}

/* Uses the slot taken for it. Returns NULL if out of memory; then the slot is given back. */
static struct export *new_export(struct bb_request *rq, const struct certificate_filter *filter)
{
    struct export *export = calloc(1, sizeof(*export));
    size_t size = filter->scope.count * sizeof(int64_t);
    int64_t *organizations = malloc(size ? size : 1);
    bool failed = !export || !organizations;

    if (failed) {
        const struct certificate *certificate = rq->state;

        slot_release(certificate->exports, rq->principal->account);
        free(organizations);
        free(export);
        return NULL;
    }
    memcpy(organizations, filter->scope.organizations, size);
    export->account = rq->principal->account;
    export->filter = *filter;
    export->filter.scope.organizations = organizations;
    for (size_t i = 0; i < CERTIFICATE_TEXTS; i++)
        export->filter.text[i] = copy(filter->text[i], &failed);
    if (!failed)
        return export;
    drop(rq->host, export);
    return NULL;
}

static int begin(struct bb_request *rq, struct export *export)
{
    static const struct pieces_source source = {.type = "text/csv; charset=utf-8",
                                                .name = "certificate-log.csv",
                                                .ready = READY_BYTES,
                                                .work = send_page,
                                                .drop = drop};
    struct csv csv = {.failed = false};

    csv_head(&csv);
    int status = pieces_begin(rq, &source, export, csv.failed ? NULL : csv.bytes, csv.length);

    csv_drop(&csv);
    return status;
}

int certificate_export(struct bb_request *rq)
{
    const struct certificate *certificate = rq->state;
    struct certificate_filter filter;
    int refused = certificate_filter(rq, &filter);

    if (!refused)
        refused = certificate_cursor(rq, &filter);
    if (!refused)
        refused = slot_take(rq, certificate->exports);
    if (refused)
        return refused;
    struct export *export = new_export(rq, &filter);

    return export ? begin(rq, export) : certificate_reply(rq, 503, NULL);
}
