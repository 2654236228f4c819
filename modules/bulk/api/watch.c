/*
 * GET /api/bulk-upload/:bulkUploadId/stream: a job's progress as Server-Sent Events. Each
 * generation has a list of its watchers. Once per second a job of the module reads the progress of
 * all watched bulk uploads in one statement, whichever hosts store the rows, and sends the changes.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "modules/bulk/job/bulk.h"

#define TYPE "text/event-stream; charset=utf-8"
#define RETRY "retry: 2000\n\n"
#define BEAT ": still here\n\n"

enum {
    PER_ACCOUNT = 64, /* streams per account */
    BUFFER = 65536,   /* bytes that may wait for a slow client */
    ID_SIZE = 37,
    BEAT_TURNS = 15 /* queries without news, after which a comment shows that the stream is alive */
};

struct watcher {
    struct watcher *next;
    struct bulk *bulk;
    struct bb_stream *stream;
    int64_t account;
    char id[ID_SIZE];
    char status[16];
    int64_t done;
    unsigned quiet; /* queries since the last send */
};

/*
 * The progress of a job. Texts are made before taking the lock, because running out of memory may
 * end the fiber.
 */
struct news {
    struct bulk_job job;
    const char *event; /* NULL: out of memory; the next query sends it */
};

struct bulk_watchers {
    pthread_mutex_t lock;
    struct watcher *first;
};

int bulk_watchers_open(struct bulk *bulk)
{
    struct bulk_watchers *watchers = calloc(1, sizeof(*watchers));

    if (!watchers || pthread_mutex_init(&watchers->lock, NULL)) {
        free(watchers);
        return -1;
    }
    bulk->watchers = watchers;
    return 0;
}

void bulk_watchers_close(struct bulk *bulk)
{
    if (!bulk->watchers)
        return;
    pthread_mutex_destroy(&bulk->watchers->lock);
    free(bulk->watchers);
    bulk->watchers = NULL;
}

/* The stream has ended; nothing else refers to the watcher after this. */
static void closed(struct bb_stream *stream, void *arg)
{
    struct watcher *watcher = arg;
    struct bulk_watchers *watchers = watcher->bulk->watchers;

    (void)stream;
    pthread_mutex_lock(&watchers->lock);
    for (struct watcher **at = &watchers->first; *at; at = &(*at)->next) {
        if (*at != watcher)
            continue;
        *at = watcher->next;
        break;
    }
    pthread_mutex_unlock(&watchers->lock);
    free(watcher);
}

static size_t streams_of(struct bulk_watchers *watchers, int64_t account)
{
    size_t count = 0;

    pthread_mutex_lock(&watchers->lock);
    for (const struct watcher *watcher = watchers->first; watcher; watcher = watcher->next)
        count += watcher->account == account;
    pthread_mutex_unlock(&watchers->lock);
    return count;
}

/* ---- sending ---- */

/* Call with the lock held, or before the watcher is in the list. */
static void send_text(struct bb_request *rq, struct watcher *watcher, const char *text)
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
    watcher->quiet = 0;
}

static bool is_over(const struct bulk_job *job)
{
    return !strcmp(job->status, "finished") || !strcmp(job->status, "cancelled");
}

/* Formats the job as an event, with the JSON that the log shows. Returns NULL if out of memory. */
static const char *event_of(struct bb_request *rq, const struct bulk_job *job)
{
    json_t *json = bulk_job_json(job);
    size_t length;
    const char *text = json ? bb_json(rq, json, &length) : NULL;

    json_decref(json);
    return text
               ? bb_format(rq, "event: %s\ndata: %s\n\n", is_over(job) ? "ended" : "progress", text)
               : NULL;
}

static void remember(struct watcher *watcher, const struct bulk_job *job)
{
    strncpy(watcher->status, job->status, sizeof(watcher->status) - 1);
    watcher->done = bulk_done(job);
}

static bool is_news(const struct watcher *watcher, const struct bulk_job *job)
{
    return strcmp(watcher->status, job->status) != 0 || watcher->done != bulk_done(job);
}

/* Call with the lock held. */
static void tell(struct bb_request *rq, struct watcher *watcher, const struct news *news)
{
    if (!news->event)
        return;
    send_text(rq, watcher, news->event);
    remember(watcher, &news->job);
    if (is_over(&news->job))
        bb_stream_end(rq->host, watcher->stream);
}

/* ---- the route ---- */

int bulk_stream(struct bb_request *rq)
{
    struct bulk *bulk = rq->state;
    struct bb_stream_options options = {
        .size = sizeof(options), .type = TYPE, .limit = BUFFER, .goodbye = RETRY, .closed = closed};
    struct news news;
    int status = bulk_job_find(rq, &news.job);

    if (status)
        return status;
    news.event = event_of(rq, &news.job);
    if (streams_of(bulk->watchers, rq->principal->account) >= PER_ACCOUNT) {
        bb_reply_header(rq, "Retry-After", "5");
        return bb_fail(rq, 429, "Too many open streams for this account");
    }
    struct watcher *watcher = calloc(1, sizeof(*watcher));

    if (!watcher)
        return bb_fail(rq, 503, "Out of memory");
    watcher->bulk = bulk;
    watcher->account = rq->principal->account;
    strncpy(watcher->id, news.job.id, sizeof(watcher->id) - 1);
    options.arg = watcher;
    status = bb_stream_open(rq, &options, &watcher->stream);
    if (status != 200) {
        free(watcher);
        return status;
    }
    pthread_mutex_lock(&bulk->watchers->lock);
    watcher->next = bulk->watchers->first;
    bulk->watchers->first = watcher;
    send_text(rq, watcher, RETRY);
    tell(rq, watcher, &news);
    pthread_mutex_unlock(&bulk->watchers->lock);
    return status;
}

/* ---- the job ---- */

/* Returns the ids of all watched jobs as a PostgreSQL array; NULL: none. */
static const char *watched(struct bb_request *rq, struct bulk_watchers *watchers)
{
    size_t room = 2;
    char *list, *to;

    pthread_mutex_lock(&watchers->lock);
    for (const struct watcher *watcher = watchers->first; watcher; watcher = watcher->next)
        room += ID_SIZE;
    pthread_mutex_unlock(&watchers->lock);
    if (room == 2)
        return NULL;
    to = list = bb_alloc(rq, room + 1);
    pthread_mutex_lock(&watchers->lock);
    for (const struct watcher *watcher = watchers->first; watcher && room >= ID_SIZE + 2;
         watcher = watcher->next, room -= ID_SIZE) {
        *to = to == list ? '{' : ',';
        to++;
        memcpy(to, watcher->id, ID_SIZE - 1);
        to += ID_SIZE - 1;
    }
    pthread_mutex_unlock(&watchers->lock);
    if (to == list)
        return NULL;
    *to = '}';
    return list;
}

/* Returns NULL if the job does not exist any more. */
static const struct news *news_of(const struct news *all, size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(all[i].job.id, id))
            return &all[i];
    return NULL;
}

/* Watchers that were added after the query are not in `list`. */
static void tell_all(struct bb_request *rq, struct bulk_watchers *watchers, const struct news *all,
                     size_t count, const char *list)
{
    pthread_mutex_lock(&watchers->lock);
    for (struct watcher *watcher = watchers->first; watcher; watcher = watcher->next) {
        const struct news *news = news_of(all, count, watcher->id);

        if (!news && strstr(list, watcher->id))
            bb_stream_end(rq->host, watcher->stream); /* the job was deleted */
        else if (news && is_news(watcher, &news->job))
            tell(rq, watcher, news);
        else if (++watcher->quiet >= BEAT_TURNS)
            send_text(rq, watcher, BEAT);
    }
    pthread_mutex_unlock(&watchers->lock);
}

void bulk_tell(struct bb_request *rq)
{
    static const struct bb_sql look = {
        "SELECT " BULK_JOB " FROM bulk_job j WHERE j.id = ANY($1::uuid[])", 0};
    const struct bulk *bulk = rq->state;
    const char *list = watched(rq, bulk->watchers);
    const struct bb_rows *rows = list ? bb_query(rq, &look, BB_ARGS(bb_t(list))) : NULL;

    if (!rows)
        return;
    size_t count = bb_count(rq, rows);
    struct news *all = bb_alloc(rq, (count + 1) * sizeof(*all));

    for (size_t i = 0; i < count; i++) {
        all[i].job = bulk_job_of(rq, rows, i);
        all[i].event = event_of(rq, &all[i].job);
    }
    tell_all(rq, bulk->watchers, all, count, list);
}
