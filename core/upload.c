#include "core/upload.h"

#include <stdlib.h>
#include <string.h>

#include "core/field.h"
#include "core/log.h"
#include "core/module_load.h"
#include "core/reply.h"
#include "core/text.h"

enum { NAME_MAX_CHARACTERS = 255 };

static struct core_request *request_under(struct upload *upload)
{
    return &upload->exchange->rq;
}

static const struct bb_route *route_of(const struct upload *upload)
{
    return upload->exchange->match.route;
}

/* ---- handing over to the pool ---- */

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
        MHD_resume_connection(upload->exchange->mhd);
    }
    if (upload->idle)
        request_wake(request_under(upload));
}

static void submit(struct upload *upload, void (*run)(void *), void (*done)(struct message *))
{
    struct core_request *rq = request_under(upload);
    const struct host_handle *owner = upload->exchange->match.owner;

    upload->call =
        (struct pool_call){.message.run = done, .loop = rq->loop, .run = run, .arg = upload};
    /* one call under way for each upload, and uploads are bounded by connections */
    pool_submit(rq->generation->pools, &owner->host, route_of(upload)->files_pool, &upload->call,
                false);
}

/* Gives what is gathered to the pool, if it is enough or the last, and the pool is free. */
static void flush(struct upload *upload)
{
    struct upload_batch *filling = upload->filling;

    if (upload->writing)
        return;
    if (upload->error || !filling->count) {
        upload->idle = upload->finished;
        return;
    }
    if (!upload->finished && filling->length < UPLOAD_CHUNK &&
        filling->count < UPLOAD_SEGMENTS_MAX / 2)
        return;
    upload->writing = filling;
    upload->filling = filling == upload->batches ? &upload->batches[1] : upload->batches;
    submit(upload, upload_write, batch_written);
}

bool upload_stalls(struct upload *upload)
{
    const struct upload_batch *filling = upload->filling;

    upload->stalled = upload->writing && (filling->length >= UPLOAD_CHUNK ||
                                          filling->count >= UPLOAD_SEGMENTS_MAX / 2);
    return upload->stalled;
}

/* ---- answers ---- */

/* Always -1: an answer has been given. */
static int wrong(struct upload *upload, const char *field, const char *problem)
{
    struct core_request *rq = request_under(upload);
    struct problems problems = {.arena = rq->arena};
    json_t *list = json_array();

    problems_add(&problems, text_utf8(field, strlen(field)) ? field : "body", "%s", problem);
    problems_list(&problems, list);
    reply_problems(rq, 400, "The request is not valid", list);
    return -1;
}

static int too_large(struct upload *upload, const char *what, size_t limit)
{
    reply_error(request_under(upload), 413, "%s larger than %zu bytes", what, limit);
    return -1;
}

static int no_memory(struct upload *upload)
{
    request_fail(request_under(upload), FAILED_MEMORY);
    reply_failed(request_under(upload));
    return -1;
}

static int not_stored(struct upload *upload)
{
    char buffer[128];

    log_line(BB_ERROR, "files cannot be stored", "directory", upload->directory, "reason",
             strerror_r(upload->error, buffer, sizeof buffer), "request", upload->exchange->id,
             NULL);
    return reply_error(request_under(upload), 503, "Files cannot be stored now");
}

/* ---- parts ---- */

static const struct bb_part *find_part(const struct upload *upload, const char *name)
{
    const struct bb_table *table = &route_of(upload)->parts;
    const struct bb_part *parts = MODULE_ROWS(bb_part, *table), *any = NULL;

    for (size_t i = 0; i < table->count; i++) {
        if (!strcmp(parts[i].name, name))
            return &parts[i];
        if (!strcmp(parts[i].name, "*"))
            any = &parts[i];
    }
    return any;
}

static unsigned *count_of(const struct upload *upload, const struct bb_part *part)
{
    return &upload->counts[part - MODULE_ROWS(bb_part, route_of(upload)->parts)];
}

/* UTF-8 of at most so many characters, whatever the client sent. */
static const char *clean_name(struct upload *upload, const char *name)
{
    char *clean = arena_text(upload->exchange->rq.arena, name, strlen(name));
    size_t length = strlen(name), at = 0, size;

    for (size_t i = 0; clean && at < length && i < NAME_MAX_CHARACTERS; i++) {
        if (text_code_point(clean + at, length - at, &size) < 0)
            clean[at] = '?';
        at += size;
    }
    if (clean)
        clean[at] = '\0';
    return clean;
}

static int part_begins(void *arg, const struct multipart_part *head)
{
    struct upload *upload = arg;
    const struct bb_part *part = find_part(upload, head->name);

    upload->part = part;
    upload->file = NULL;
    upload->filename = NULL;
    if (!part)
        return wrong(upload, head->name, "is not a part that this request may have");
    if (++upload->parts > UPLOAD_PARTS_MAX)
        return wrong(upload, "body", "has too many parts");
    if (part->kind == BB_PART_FIELDS) {
        if ((*count_of(upload, part))++)
            return wrong(upload, part->name, "must be there once");
        return 0;
    }
    if (!head->filename)
        return 0;
    upload->filename = clean_name(upload, head->filename);
    return upload->filename ? 0 : no_memory(upload);
}

/* The same text for every part of a route, so that a module may compare it. */
static const char *part_name(struct upload *upload)
{
    return upload->part->name;
}

static int begin_file(struct upload *upload)
{
    struct arena *arena = upload->exchange->rq.arena;
    struct upload_file *file;
    char uuid[TEXT_UUID_SIZE];

    if (*count_of(upload, upload->part) == upload->part->count_max)
        return wrong(upload, part_name(upload), "has too many files");
    (*count_of(upload, upload->part))++;
    text_uuid7(uuid);
    file = arena_alloc(arena, sizeof *file);
    if (!file)
        return no_memory(upload);
    file->fd = -1;
    file->pub = (struct bb_file){
        .size = sizeof file->pub,
        .part = part_name(upload),
        .name = upload->filename,
        .path = arena_format(arena, "%s/incoming/%s", upload->directory, uuid),
        .sha256 = file->sha256,
    };
    if (!file->pub.path)
        return no_memory(upload);
    *upload->files_end = file;
    upload->files_end = &file->next;
    upload->file = file;
    return 0;
}

/* Puts data of the file into the batch that is filled. */
static int gather(struct upload *upload, const char *bytes, size_t length, bool last)
{
    struct upload_batch *batch = upload->filling;
    struct upload_segment *segment = batch->count ? &batch->segments[batch->count - 1] : NULL;

    if (!batch->bytes)
        batch->bytes = malloc(UPLOAD_ROOM);
    if (!batch->bytes || batch->length + length > UPLOAD_ROOM)
        return no_memory(upload);
    if (!segment || segment->file != upload->file) {
        if (batch->count == UPLOAD_SEGMENTS_MAX)
            return no_memory(upload);
        segment = &batch->segments[batch->count++];
        *segment = (struct upload_segment){.file = upload->file};
    }
    memcpy(batch->bytes + batch->length, bytes, length);
    batch->length += length;
    segment->length += length;
    segment->last = last;
    return 0;
}

static int file_data(struct upload *upload, const char *bytes, size_t length)
{
    const struct bb_part *part = upload->part;

    if (!upload->filename)
        return wrong(upload, part_name(upload), "must be a file, with a name");
    if (!upload->file && begin_file(upload))
        return -1;
    upload->file->pub.length += (int64_t)length;
    upload->files_length += length;
    if ((size_t)upload->file->pub.length > part->bytes_max)
        return too_large(upload, "A file is", part->bytes_max);
    if (upload->files_length > route_of(upload)->files_max)
        return too_large(upload, "The files are together", route_of(upload)->files_max);
    return gather(upload, bytes, length, false);
}

static int part_data(void *arg, const char *bytes, size_t length)
{
    struct upload *upload = arg;
    struct exchange *exchange = upload->exchange;

    if (upload->part->kind == BB_PART_FILES)
        return file_data(upload, bytes, length);
    size_t limit = (size_t)settings_int(exchange->rq.generation->settings, "http", "max_body");

    return body_keep(exchange, bytes, length, limit) ? -1 : 0;
}

/* A file without data has a name at least; else it is a field of a form that was left empty. */
static int part_ends(void *arg)
{
    struct upload *upload = arg;

    if (upload->part->kind != BB_PART_FILES)
        return 0;
    if (!upload->file && (!upload->filename || !*upload->filename))
        return 0;
    if (!upload->file && begin_file(upload))
        return -1;
    return gather(upload, "", 0, true);
}

static const struct multipart_calls calls = {part_begins, part_data, part_ends};

/* ---- the body ---- */

int upload_begin(struct exchange *exchange, const char *boundary)
{
    const struct bb_route *route = exchange->match.route;
    struct host_handle *owner = exchange->match.owner;
    struct upload *upload = calloc(1, sizeof *upload);

    if (upload) {
        upload->exchange = exchange;
        upload->filling = upload->batches;
        upload->files_end = &upload->files;
        upload->counts = arena_alloc(exchange->rq.arena, route->parts.count * sizeof(unsigned));
        if (route->files_in)
            upload->directory = api_setting_text(&owner->host, route->files_in);
    }
    if (!upload || !upload->counts || multipart_init(&upload->parser, boundary, &calls, upload)) {
        free(upload);
        request_fail(&exchange->rq, FAILED_MEMORY);
        return reply_failed(&exchange->rq);
    }
    exchange->upload = upload;
    return 0;
}

int upload_take(struct upload *upload, const char *data, size_t size)
{
    struct core_request *rq = request_under(upload);

    if (!upload->writing && upload->error)
        return not_stored(upload);
    if (multipart_feed(&upload->parser, data, size)) {
        if (upload->parser.problem)
            reply_error(rq, 400, "Malformed multipart body: %s", upload->parser.problem);
        return rq->answer.status;
    }
    flush(upload);
    return 0;
}

int upload_complete(struct upload *upload)
{
    const struct bb_table *table = &route_of(upload)->parts;
    const struct bb_part *parts = MODULE_ROWS(bb_part, *table);
    struct core_request *rq = request_under(upload);

    if (!multipart_complete(&upload->parser))
        return reply_error(rq, 400, "Malformed multipart body: the last boundary is missing");
    for (size_t i = 0; i < table->count; i++) {
        if (!(parts[i].flags & BB_REQUIRED) || upload->counts[i])
            continue;
        wrong(upload, parts[i].name, "is required");
        return rq->answer.status;
    }
    upload->finished = true;
    flush(upload);
    return 0;
}

int upload_wait(struct upload *upload)
{
    struct core_request *rq = request_under(upload);

    if (request_wait(rq, &upload->idle))
        return reply_failed(rq);
    return upload->error ? not_stored(upload) : 0;
}

const char *upload_identity(struct upload *upload, size_t *length)
{
    const struct exchange *exchange = upload->exchange;
    struct arena *arena = exchange->rq.arena;
    char *text = arena_text(arena, exchange->bytes ? exchange->bytes : "", exchange->length);

    for (const struct upload_file *file = upload->files; text && file; file = file->next)
        text =
            arena_format(arena, "%s\n%s %s %s", text, file->pub.part, file->sha256, file->pub.name);
    *length = text ? strlen(text) : 0;
    return text;
}

static void discarded(struct message *message)
{
    struct upload *upload = (struct upload *)(void *)message;
    struct exchange *exchange = upload->exchange;

    multipart_free(&upload->parser);
    free(upload->batches[0].bytes);
    free(upload->batches[1].bytes);
    free(upload);
    exchange_free(exchange);
}

void upload_end(struct upload *upload)
{
    upload->ended = true;
    request_under(upload)->cut = NULL; /* there is no connection any more */
    if (upload->writing)
        return;
    if (upload->files)
        submit(upload, upload_discard, discarded);
    else
        discarded(&upload->call.message);
}

const struct bb_file *api_file(struct bb_request *pub, size_t index)
{
    const struct exchange *exchange = exchange_of(pub);
    const struct upload_file *file = NULL;

    if (request_of(pub)->kind != REQUEST_HTTP || !exchange->upload)
        return NULL;
    for (file = exchange->upload->files; file && index; file = file->next)
        index--;
    return file ? &file->pub : NULL;
}
