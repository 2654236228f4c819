/*
 * GET /api/certificate-log/export.csv: the log as a stream, whatever its length.
 *
 * A page of entries is fetched, written and sent by a piece of work of its own, which asks for the
 * next one when it is done; before it fetches, it waits until the client has taken most of what
 * went before. So an export holds a page or two in memory, and no connection to the database while
 * its client does not read. When something fails the stream is cut, so that what is missing does
 * not look like the end. How many may be under way is bounded (places.c).
 *
 * The stream closes on a thread of its own choosing, and may be used only until then: the lock.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "certificate.h"
#include "csv.h"

#define PAGE 1000                /* entries */
#define READY_BYTES (256 * 1024) /* that may wait for the client when a page is sent */
#define PAUSE_MS 20
#define PAUSES 500 /* in one piece of work */

struct export
{
    struct bb_host *host;
    int64_t account;                  /* who holds a place for it */
    struct certificate_filter filter; /* its texts and organisations are the export's own */
    int64_t sent;                     /* entries of the last piece of work; -1: it failed */
    pthread_mutex_t lock;
    /* under the lock */
    struct bb_stream *stream; /* NULL: closed */
    bool working;             /* a piece of work is under way, or asked for */
};

static void free_export(struct export *export)
{
    const struct certificate *certificate = export->host->state;

    certificate_place_give(certificate->places, export->account);
    pthread_mutex_destroy(&export->lock);
    free((void *)(uintptr_t) export->filter.scope.organisations);
    free((void *)(uintptr_t) export->filter.start);
    free((void *)(uintptr_t) export->filter.end);
    free((void *)(uintptr_t) export->filter.status);
    free(export);
}

static void closed(struct bb_stream *stream, void *arg)
{
    struct export *export = arg;

    (void)stream;
    pthread_mutex_lock(&export->lock);
    export->stream = NULL;
    bool working = export->working;
    pthread_mutex_unlock(&export->lock);
    if (!working)
        free_export(export);
}

/* No work follows. */
static void finish(struct export *export, bool whole)
{
    pthread_mutex_lock(&export->lock);
    struct bb_stream *stream = export->stream;

    if (stream && whole)
        bb_stream_end(export->host, stream);
    else if (stream)
        bb_stream_cut(export->host, stream);
    export->working = false;
    pthread_mutex_unlock(&export->lock);
    if (!stream)
        free_export(export);
}

/* Bytes that wait; -1: nobody listens any more. */
static int64_t waiting(struct export *export)
{
    pthread_mutex_lock(&export->lock);
    int64_t bytes = export->stream ? (int64_t)bb_stream_waiting(export->host, export->stream) : -1;
    pthread_mutex_unlock(&export->lock);
    return bytes;
}

static int send(struct export *export, const struct csv *csv)
{
    struct bb_chunk *chunk = csv->failed ? NULL : bb_chunk_new(export->host, csv->length);
    int failed = -1;

    if (!chunk)
        return -1;
    memcpy(chunk->bytes, csv->bytes, csv->length);
    pthread_mutex_lock(&export->lock);
    if (export->stream)
        failed = bb_stream_send(export->host, export->stream, chunk);
    pthread_mutex_unlock(&export->lock);
    bb_chunk_release(export->host, chunk);
    return failed;
}

static void drop_csv(void *csv)
{
    free(((struct csv *)csv)->bytes);
}

/* How many entries were sent; -1: it failed. */
static int64_t send_page(struct bb_request *rq, struct export *export)
{
    const struct bb_rows *rows = certificate_fetch_long(rq, &export->filter, PAGE);
    size_t count = rows ? bb_count(rq, rows) : 0;
    const struct bb_device *devices = rows ? certificate_devices(rq, rows, count) : NULL;
    struct csv *csv = bb_alloc(rq, sizeof(*csv));

    if (!devices)
        return -1;
    bb_defer(rq, drop_csv, csv);
    for (size_t i = 0; i < count; i++)
        csv_entry(rq, csv, rows, i, &devices[i]);
    int failed = count ? send(export, csv) : 0;

    if (count)
        certificate_move(rq, &export->filter, rows, count - 1);
    return failed ? -1 : (int64_t)count;
}

/* Until the client has taken most of what waits: 1; 0: not yet; -1: it has gone. */
static int client_ready(struct bb_request *rq, struct export *export)
{
    for (int pauses = 0; pauses < PAUSES; pauses++) {
        int64_t bytes = waiting(export);

        if (bytes <= READY_BYTES)
            return bytes < 0 ? -1 : 1;
        struct bb_gate *gate = bb_gate(rq);

        if (!gate)
            return -1;
        bb_gate_wait(rq, gate, PAUSE_MS); /* nobody opens it: it is a pause */
        bb_gate_open(rq->host, gate);
    }
    return 0;
}

static void work(struct bb_request *rq, void *arg)
{
    struct export *export = arg;
    int ready = client_ready(rq, export);

    export->sent = ready > 0 ? send_page(rq, export) : ready < 0 ? -1 : PAGE;
}

static int go_on(struct export *export);

/* A piece that ended in the middle, for want of memory, has failed. */
static void worked(void *arg, bool whole)
{
    struct export *export = arg;
    int64_t sent = whole ? export->sent : -1;

    if (sent < PAGE)
        finish(export, sent >= 0);
    else if (go_on(export))
        finish(export, false);
}

static int go_on(struct export *export)
{
    return bb_run_then(export->host, work, worked, export);
}

static char *copy(const char *text, bool *failed)
{
    char *copied = text ? strdup(text) : NULL;

    *failed = *failed || (text && !copied);
    return copied;
}

/* With the place that was taken for it; NULL: no memory, and the place is given back. */
static struct export *new_export(struct bb_request *rq, const struct certificate_filter *filter)
{
    struct export *export = calloc(1, sizeof(*export));
    size_t size = filter->scope.count * sizeof(int64_t);
    int64_t *organisations = malloc(size ? size : 1);
    bool failed = !export || !organisations || pthread_mutex_init(&export->lock, NULL) != 0;

    if (failed) {
        const struct certificate *certificate = rq->state;

        certificate_place_give(certificate->places, rq->principal->account);
        free(organisations);
        free(export);
        return NULL;
    }
    memcpy(organisations, filter->scope.organisations, size);
    export->host = rq->host;
    export->account = rq->principal->account;
    export->filter = *filter;
    export->filter.scope.organisations = organisations;
    export->filter.start = copy(filter->start, &failed);
    export->filter.end = copy(filter->end, &failed);
    export->filter.status = copy(filter->status, &failed);
    if (!failed)
        return export;
    free_export(export);
    return NULL;
}

static int begin(struct bb_request *rq, struct export *export)
{
    struct csv csv = {.failed = false};
    struct bb_stream_options options = {
        .size = sizeof(options),
        .type = "text/csv; charset=utf-8",
        .limit = SIZE_MAX, /* never more than READY_BYTES and a page */
        .closed = closed,
        .arg = export,
        .whole = true,
    };
    int status = bb_stream_open(rq, &options, &export->stream);

    if (status != 200) {
        free_export(export);
        return status;
    }
    csv_head(&csv);
    export->working = true;
    if (bb_reply_header(rq, "Content-Disposition", "attachment; filename=\"certificate-log.csv\"") <
            0 ||
        send(export, &csv) || go_on(export))
        finish(export, false);
    free(csv.bytes);
    return status;
}

int certificate_export(struct bb_request *rq)
{
    const struct certificate *certificate = rq->state;
    struct certificate_filter filter;
    int refused = certificate_filter(rq, &filter);

    if (!refused)
        refused = certificate_place_take(rq, certificate->places);
    if (refused)
        return refused;
    struct export *export = new_export(rq, &filter);

    return export ? begin(rq, export) : certificate_reply(rq, 503, NULL);
}
