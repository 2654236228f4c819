#include "core/server/upload.h"

#include <stdlib.h>
#include <string.h>

#include "core/lib/log.h"
#include "core/module/engine.h"
#include "core/module/module_load.h"
#include "core/module/reply.h"
#include "core/server/body.h"

/* ---- passing batches to the pool ---- */

static void flush(struct upload *upload);

static void batch_written(struct message *message)
{
    struct upload *upload = (struct upload *)(void *)message;

    upload->writing->length = 0;
    upload->writing->count = 0;
    upload->writing = NULL;
    if (upload->ended) {
        upload_end(upload);
        return;
    }
    flush(upload);
    if (upload->stalled) {
        upload->stalled = false;
        MHD_resume_connection(upload->txn->mhd);
    }
    if (upload->idle)
        request_wake(upload_request(upload));
}

static void submit(struct upload *upload, void (*run)(void *), void (*done)(struct message *))
{
    struct core_request *rq = upload_request(upload);
    const struct host_handle *owner = upload->txn->match.owner;

    upload->call = (struct pool_call){
        .message.run = done, .loop = rq->loop, .owner = rq->owner, .run = run, .arg = upload};
    /* each upload has one call in progress, and connections limit the number of uploads */
    pool_submit(rq->generation->pools, &owner->host, upload_route(upload)->files_pool,
                &upload->call, false);
}

/* Passes the collected data to the pool, if it is enough or the last, and the pool is idle. */
static void flush(struct upload *upload)
{
    struct upload_batch *filling = upload->filling;

    if (upload->writing)
        return;
    if (upload->error || (!filling->count && !upload->written)) {
        upload->idle = upload->finished;
        return;
    }
    if (!upload->finished && filling->length < UPLOAD_CHUNK &&
        filling->count < UPLOAD_SEGMENTS_MAX / 2)
        return;
    upload->last = upload->finished;
    upload->writing = filling;
    upload->filling = filling == upload->batches ? &upload->batches[1] : upload->batches;
    submit(upload, upload_write, batch_written);
}

/* Whether another piece fits while the other batch is being written. */
static bool has_spare(struct upload *upload)
{
    struct upload_batch *filling = upload->filling;

    if (filling->length >= UPLOAD_CHUNK || filling->count >= UPLOAD_SEGMENTS_MAX / 2)
        return false;
    if (!filling->counted && filling->length >= UPLOAD_UNCOUNTED)
        filling->counted = body_try_room(upload->txn, UPLOAD_ROOM);
    return filling->counted || filling->length < UPLOAD_UNCOUNTED;
}

bool upload_stalls(struct upload *upload)
{
    upload->stalled = upload->writing && !has_spare(upload);
    return upload->stalled;
}

/* ---- the body ---- */

static int not_stored(struct upload *upload)
{
    const struct bb_route *route = upload_route(upload);
    struct host_handle *owner = upload->txn->match.owner;
    char buffer[128];

    if (route->files_failed)
        route->files_failed(&owner->host);
    log_line(BB_ERROR, "files cannot be stored", "directory", upload->directory, "reason",
             strerror_r(upload->error, buffer, sizeof buffer), "request", upload->txn->id, NULL);
    return reply_error(upload_request(upload), 503, "Files cannot be stored now");
}

int upload_begin(struct http_txn *txn, const char *boundary)
{
    const struct bb_route *route = txn->match.route;
    struct host_handle *owner = txn->match.owner;
    struct upload *upload = calloc(1, sizeof *upload);

    if (upload) {
        upload->txn = txn;
        upload->filling = upload->batches;
        upload->files_end = &upload->files;
        upload->counts = arena_alloc(txn->rq.arena, route->parts.count * sizeof(unsigned));
        if (route->files_in)
            upload->directory = api_setting_text(&owner->host, route->files_in);
    }
    if (!upload || !upload->counts ||
        multipart_init(&upload->parser, boundary, &upload_parts, upload)) {
        free(upload);
        request_fail(&txn->rq, FAILED_MEMORY);
        return reply_failed(&txn->rq);
    }
    txn->upload = upload;
    return 0;
}

int upload_take(struct upload *upload, const char *data, size_t size)
{
    struct core_request *rq = upload_request(upload);

    if (!upload->writing && upload->error)
        return not_stored(upload);
    if (multipart_feed(&upload->parser, data, size)) {
        if (upload->parser.problem)
            reply_error(rq, 400, "Malformed multipart body: %s", upload->parser.problem);
        return rq->response.status;
    }
    flush(upload);
    return 0;
}

int upload_complete(struct upload *upload)
{
    struct core_request *rq = upload_request(upload);

    if (!multipart_complete(&upload->parser))
        return reply_error(rq, 400, "Malformed multipart body: the last boundary is missing");
    if (upload_parts_check(upload))
        return rq->response.status;
    upload->finished = true;
    flush(upload);
    return 0;
}

int upload_wait(struct upload *upload)
{
    struct core_request *rq = upload_request(upload);

    if (request_wait(rq, &upload->idle))
        return reply_failed(rq);
    return upload->error ? not_stored(upload) : 0;
}

const char *upload_identity(struct upload *upload, size_t *length)
{
    const struct http_txn *txn = upload->txn;
    struct arena *arena = txn->rq.arena;
    char *text = arena_text(arena, txn->bytes ? txn->bytes : "", txn->length);

    for (const struct upload_file *file = upload->files; text && file; file = file->next)
        text =
            arena_format(arena, "%s\n%s %s %s", text, file->pub.part, file->sha256, file->pub.name);
    *length = text ? strlen(text) : 0;
    return text;
}

static void discarded(struct message *message)
{
    struct upload *upload = (struct upload *)(void *)message;
    struct http_txn *txn = upload->txn;

    quota_release_all(&quota_tables[QUOTA_UPLOADS], &upload->on_disk);
    multipart_free(&upload->parser);
    free(upload->batches[0].bytes);
    free(upload->batches[1].bytes);
    free(upload);
    http_txn_free(txn);
}

void upload_end(struct upload *upload)
{
    upload->ended = true;
    upload_request(upload)->cut = NULL; /* the connection no longer exists */
    if (upload->writing)
        return;
    if (upload->files)
        submit(upload, upload_discard, discarded);
    else
        discarded(&upload->call.message);
}

const struct bb_file *api_file(struct bb_request *pub, size_t index)
{
    const struct http_txn *txn = http_txn_of(pub);
    const struct upload_file *file = NULL;

    if (request_of(pub)->kind != REQUEST_HTTP || !txn->upload)
        return NULL;
    for (file = txn->upload->files; file && index; file = file->next)
        index--;
    return file ? &file->pub : NULL;
}
