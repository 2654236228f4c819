/*
 * GET /api/bulk-upload/:bulkUploadId/stream: a job's progress as Server-Sent Events. The module's
 * state has a list of the watchers. Once per second, a job reads the progress of all watched bulk
 * uploads in one statement, whichever hosts store the rows, and sends the changes.
 */
#include <busbar/lock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules/bulk/bulk.h"

#define RETRY "retry: 2000\n\n"

struct watcher {
    LIST_ENTRY(watcher) link;
    struct bulk *bulk;
    struct bb_stream *stream;
    int64_t account;
    char id[BULK_ID];
    char status[16]; /* the status that was sent last */
    int64_t done;    /* the number of done rows that was sent last */
};

/* Called when the stream has ended. Nothing refers to the watcher after this. */
static void watch_closed(struct bb_stream *stream, void *arg)
{
    struct watcher *watcher = arg;
    struct bulk *bulk = watcher->bulk;

    (void)stream;
    pthread_mutex_lock(&bulk->watching);
    LIST_REMOVE(watcher, link);
    pthread_mutex_unlock(&bulk->watching);
    free(watcher);
}

/*
 * Formats the job as an event whose data is the job's JSON in the API. Call it without the lock,
 * because the fiber ends inside this function if memory runs out, and the lock would stay locked.
 */
static const char *watch_event(struct bb_request *rq, const struct bulk_job *job)
{
    json_t *json = bb_json_hold(rq, bulk_job_json(rq, job));

    return bb_format(rq, "event: %s\ndata: %s\n\n", job->ended ? "ended" : "progress",
                     bb_json(rq, json, NULL));
}

/* Sends `text`, an event about the job. Ends the stream if the job has ended. Needs the lock. */
static void watch_send(struct bb_request *rq, struct watcher *watcher, const struct bulk_job *job,
                       const char *text)
{
    size_t length = strlen(text);
    struct bb_chunk *chunk = bb_chunk_new(rq->host, length);

    if (chunk) {
        memcpy(chunk->bytes, text, length);
        bb_stream_send(rq->host, watcher->stream, chunk);
    } else {
        bb_stream_cut(rq->host, watcher->stream);
    }
    bb_chunk_release(rq->host, chunk);
    snprintf(watcher->status, sizeof(watcher->status), "%s", job->status);
    watcher->done = bulk_done(job);
    if (job->ended)
        bb_stream_end(rq->host, watcher->stream);
}

int bulk_stream(struct bb_request *rq)
{
    struct bulk *bulk = rq->state;
    struct bulk_job job = bulk_job_find(rq);
    struct watcher *watcher;
    size_t own = 0;
    const char *text = bb_format(rq, RETRY "%s", watch_event(rq, &job));

    pthread_mutex_lock(&bulk->watching);
    LIST_FOREACH (watcher, &bulk->watchers, link)
        own += watcher->account == rq->principal->account;
    pthread_mutex_unlock(&bulk->watching);
    if (own >= 64) {
        bb_reply_header(rq, "Retry-After", "5");
        return bb_fail(rq, 429, "Too many open streams for this account");
    }
    watcher = calloc(1, sizeof(*watcher));
    if (!watcher)
        return bb_no_memory(rq);
    watcher->bulk = bulk;
    watcher->account = rq->principal->account;
    snprintf(watcher->id, sizeof(watcher->id), "%s", job.id);
    const struct bb_stream_options options = {.size = sizeof(options),
                                              .type = "text/event-stream; charset=utf-8",
                                              .limit = 65536,
                                              .goodbye = RETRY,
                                              .closed = watch_closed,
                                              .arg = watcher,
                                              .heartbeat = ": still here\n\n",
                                              .heartbeat_ms = 15000};
    int status = bb_stream_open(rq, &options, &watcher->stream);

    if (status != 200) {
        free(watcher);
        return status;
    }
    BB_LOCKED(&bulk->watching);
    LIST_INSERT_HEAD(&bulk->watchers, watcher, link);
    watch_send(rq, watcher, &job, text);
    return status;
}

/* Runs once per second, as a job of the module. */
void bulk_watch(struct bb_request *rq)
{
    static const struct bb_sql find = {
        "SELECT " BULK_JOB " FROM bulk_job j"
        " WHERE j.id IN (SELECT json_array_elements_text($1::json)::uuid)",
        0};
    struct bulk *bulk = rq->state;
    struct watcher *watcher;
    json_t *ids = json_array();

    pthread_mutex_lock(&bulk->watching);
    LIST_FOREACH (watcher, &bulk->watchers, link)
        ids = bb_append(ids, json_string(watcher->id));
    pthread_mutex_unlock(&bulk->watching);
    bb_json_hold(rq, ids);
    const char *list = json_array_size(ids) ? bb_json(rq, ids, NULL) : NULL;
    const struct bb_rows *rows = list ? bb_query(rq, &find, BB_ARGS(bb_t(list))) : NULL;

    if (!rows)
        return;
    size_t count = bb_count(rq, rows);
    struct bulk_job *jobs = bb_alloc(rq, (count + 1) * sizeof(*jobs));
    const char **texts = bb_alloc(rq, (count + 1) * sizeof(*texts));

    for (size_t i = 0; i < count; i++) {
        jobs[i] = bulk_job_of(rq, rows, i, false);
        texts[i] = watch_event(rq, &jobs[i]);
    }
    BB_LOCKED(&bulk->watching);
    LIST_FOREACH (watcher, &bulk->watchers, link) {
        size_t i = 0;

        while (i < count && strcmp(jobs[i].id, watcher->id) != 0)
            i++;
        if (i == count && strstr(list, watcher->id))
            bb_stream_end(rq->host, watcher->stream); /* the job was deleted */
        else if (i < count && (strcmp(watcher->status, jobs[i].status) != 0 ||
                               watcher->done != bulk_done(&jobs[i])))
            watch_send(rq, watcher, &jobs[i], texts[i]);
    }
}
