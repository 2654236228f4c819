/*
 * GET /api/bulk-upload/:bulkUploadId/failed.csv: the failed rows as they were sent, with a column
 * `errors` behind them, to be corrected and sent again as they are. A column of that name that was
 * sent is left out, so that it has one after the second round, too.
 *
 * A stream: a piece of work reads the failed rows of one part, sends them, and asks for the next
 * one when it is done; before it reads, it waits until the client has taken most of what went
 * before. So there is a part or two in memory. When something fails the stream is cut, so that what
 * is missing does not look like the end. The stream closes on a thread of its own choosing: the
 * lock.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bulk.h"
#include "write.h"

#define READY_BYTES (256 * 1024) /* that may wait for the client when a part is sent */
#define PAUSE_MS 20
#define PAUSES 500 /* in one piece of work */

enum outcome { MORE, WHOLE, CUT };

struct failed {
    struct bb_host *host;
    char id[37];
    char separator[2];
    char *header;      /* JSON, as of the job */
    int64_t behind;    /* the last row of the part before */
    enum outcome next; /* of the last piece of work */
    pthread_mutex_t lock;
    /* under the lock */
    struct bb_stream *stream; /* NULL: closed */
    bool working;             /* a piece of work is under way, or asked for */
};

static void free_failed(struct failed *failed)
{
    pthread_mutex_destroy(&failed->lock);
    free(failed->header);
    free(failed);
}

static void closed(struct bb_stream *stream, void *arg)
{
    struct failed *failed = arg;

    (void)stream;
    pthread_mutex_lock(&failed->lock);
    failed->stream = NULL;
    bool working = failed->working;
    pthread_mutex_unlock(&failed->lock);
    if (!working)
        free_failed(failed);
}

/* No work follows. */
static void finish(struct failed *failed, bool whole)
{
    pthread_mutex_lock(&failed->lock);
    struct bb_stream *stream = failed->stream;

    if (stream && whole)
        bb_stream_end(failed->host, stream);
    else if (stream)
        bb_stream_cut(failed->host, stream);
    failed->working = false;
    pthread_mutex_unlock(&failed->lock);
    if (!stream)
        free_failed(failed);
}

/* Bytes that wait; -1: nobody listens any more. */
static int64_t waiting(struct failed *failed)
{
    pthread_mutex_lock(&failed->lock);
    int64_t bytes = failed->stream ? (int64_t)bb_stream_waiting(failed->host, failed->stream) : -1;
    pthread_mutex_unlock(&failed->lock);
    return bytes;
}

static int send(struct failed *failed, const struct written *csv)
{
    struct bb_chunk *chunk = csv->failed ? NULL : bb_chunk_new(failed->host, csv->length);
    int lost = -1;

    if (!chunk)
        return -1;
    memcpy(chunk->bytes, csv->bytes, csv->length);
    pthread_mutex_lock(&failed->lock);
    if (failed->stream)
        lost = bb_stream_send(failed->host, failed->stream, chunk);
    pthread_mutex_unlock(&failed->lock);
    bb_chunk_release(failed->host, chunk);
    return lost;
}

/* ---- rows ---- */

static bool is_errors(const json_t *header, size_t column)
{
    return !strcasecmp(json_string_value(json_array_get(header, column)), "errors");
}

static void write_errors(struct bb_request *rq, struct written *csv, const json_t *problems)
{
    char *text = bb_format(rq, "%s", "");
    const json_t *problem;
    size_t i;

    json_array_foreach(problems, i, problem)
    {
        const char *field = json_string_value(json_object_get(problem, "field"));

        text = bb_format(rq, "%s%s%s%s%s", text, i ? "; " : "", field, *field ? ": " : "",
                         json_string_value(json_object_get(problem, "problem")));
    }
    write_words(csv, text);
}

static void write_rows(struct bb_request *rq, struct written *csv, const struct bulk_batch *batch,
                       const json_t *header, const json_t *findings)
{
    size_t columns = json_array_size(header);
    char key[24];

    for (size_t i = 0; i < batch->count; i++) {
        const char *const *cells = batch->sent[i];
        size_t count = 0;

        snprintf(key, sizeof(key), "%lld", (long long)batch->rows[i]->number);
        const json_t *problems = json_object_get(findings, key);

        if (!problems)
            continue;
        while (cells[count])
            count++;
        for (size_t k = 0; k < columns; k++)
            if (!is_errors(header, k))
                write_cell(csv, k < count ? cells[k] : NULL);
        write_errors(rq, csv, problems);
        write_end(csv);
    }
}

static void write_header(struct written *csv, const json_t *header)
{
    const json_t *name;
    size_t i;

    write_bytes(csv, "\xef\xbb\xbf", 3); /* else Excel takes it for Windows-1252 */
    json_array_foreach(header, i, name)
    {
        if (!is_errors(header, i))
            write_cell(csv, json_string_value(name));
    }
    write_cell(csv, "errors");
    write_end(csv);
}

/* ---- the work ---- */

/* $1 job, $2 behind which row */
static const struct bb_sql find = {
    "SELECT p.first_row, p.last_row, p.bytes, (SELECT json_object_agg(f.number, f.problems::json)"
    " FROM bulk_finding f WHERE f.job = p.job AND f.number BETWEEN p.first_row AND p.last_row)"
    " FROM bulk_part p WHERE p.job = $1::uuid AND p.last_row > $2::bigint AND p.failed > 0"
    " ORDER BY p.last_row LIMIT 1",
    BB_SQL_LONG,
};

static void drop_json(void *json)
{
    json_decref(json);
}

static void drop_written(void *written)
{
    write_free(written);
}

static enum outcome send_part(struct bb_request *rq, struct failed *failed)
{
    const struct bb_rows *parts =
        bb_query(rq, &find, BB_ARGS(bb_t(failed->id), bb_i(failed->behind)));
    struct written *csv = bb_alloc(rq, sizeof(*csv));
    const char *twice, *found;

    if (!parts)
        return CUT;
    if (!bb_count(rq, parts))
        return WHOLE;
    bb_defer(rq, drop_written, csv);
    json_t *header = json_loads(failed->header, 0, NULL);

    bb_defer(rq, drop_json, header);
    found = bb_cell(rq, parts, 0, 3);
    json_t *findings = json_loads(found ? found : "{}", 0, NULL);

    bb_defer(rq, drop_json, findings);
    const struct bulk_columns *columns =
        bulk_columns_of(rq, NULL, header, failed->separator[0], &twice);
    const char *bytes = bb_cell(rq, parts, 0, 2);
    const struct bulk_batch *batch = bulk_batch_of(
        rq, NULL, columns, bytes, strlen(bytes), bb_cell_int(rq, parts, 0, 0), 0, BB_BULK_ROWS_MAX);

    if (!header || !findings || batch->why)
        return CUT;
    csv->separator = failed->separator[0];
    write_rows(rq, csv, batch, header, findings);
    failed->behind = bb_cell_int(rq, parts, 0, 1);
    return csv->length && send(failed, csv) ? CUT : MORE;
}

/* Until the client has taken most of what waits: 1; 0: not yet; -1: it has gone. */
static int client_ready(struct bb_request *rq, struct failed *failed)
{
    for (int pauses = 0; pauses < PAUSES; pauses++) {
        int64_t bytes = waiting(failed);

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
    struct failed *failed = arg;
    int ready = client_ready(rq, failed);

    failed->next = ready > 0 ? send_part(rq, failed) : ready < 0 ? CUT : MORE;
}

static int go_on(struct failed *failed);

/* A piece that ended in the middle, for want of memory, has failed. */
static void worked(void *arg, bool whole)
{
    struct failed *failed = arg;
    enum outcome next = whole ? failed->next : CUT;

    if (next != MORE)
        finish(failed, next == WHOLE);
    else if (go_on(failed))
        finish(failed, false);
}

static int go_on(struct failed *failed)
{
    return bb_run_then(failed->host, work, worked, failed);
}

/* ---- the beginning ---- */

static struct failed *new_failed(struct bb_request *rq, const struct bulk_job *job)
{
    struct failed *failed = calloc(1, sizeof(*failed));
    char *header = strdup(job->header);

    if (!failed || !header || pthread_mutex_init(&failed->lock, NULL) != 0) {
        free(failed);
        free(header);
        return NULL;
    }
    failed->host = rq->host;
    failed->header = header;
    memcpy(failed->id, job->id, sizeof(failed->id) - 1);
    failed->separator[0] = job->separator[0];
    return failed;
}

static int begin(struct bb_request *rq, struct failed *failed)
{
    struct written csv = {.separator = failed->separator[0]};
    struct bb_stream_options options = {
        .size = sizeof(options),
        .type = "text/csv; charset=utf-8",
        .limit = SIZE_MAX, /* never more than READY_BYTES and a part */
        .closed = closed,
        .arg = failed,
        .whole = true,
    };
    int status = bb_stream_open(rq, &options, &failed->stream);

    if (status != 200) {
        free_failed(failed);
        return status;
    }
    json_t *header = json_loads(failed->header, 0, NULL);

    write_header(&csv, header);
    failed->working = true;
    if (!header ||
        bb_reply_header(rq, "Content-Disposition", "attachment; filename=\"failed.csv\"") < 0 ||
        send(failed, &csv) || go_on(failed))
        finish(failed, false);
    json_decref(header);
    write_free(&csv);
    return status;
}

int bulk_failed_csv(struct bb_request *rq)
{
    struct bulk_job job;
    int refused = bulk_job_find(rq, &job);

    if (refused)
        return refused;
    struct failed *failed = new_failed(rq, &job);

    return failed ? begin(rq, failed) : bulk_reply(rq, 503, NULL);
}
