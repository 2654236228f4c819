/*
 * The parts of an upload: checks their names, number and size against the route, and collects their
 * data.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/field.h"
#include "core/lib/text.h"
#include "core/lib/warning.h"
#include "core/module/engine.h"
#include "core/module/module_load.h"
#include "core/module/quota.h"
#include "core/module/reply.h"
#include "core/server/body.h"
#include "core/server/upload.h"

enum { NAME_MAX_CHARACTERS = 255 };

/* ---- answers ---- */

static int no_memory(struct upload *upload)
{
    request_fail(upload_request(upload), FAILED_MEMORY);
    reply_failed(upload_request(upload));
    return -1;
}

/*
 * Records an error, which is reported with all others when the request is complete; the rest of the
 * part is ignored. Returns 0, or -1 if memory ran out and it has answered.
 */
static int note(struct upload *upload, const char *field, const char *problem)
{
    struct core_request *rq = upload_request(upload);
    struct problems problems = {.arena = rq->arena};

    upload->part = NULL;
    if (!rq->errors)
        rq->errors = json_array();
    problems_add(&problems, text_utf8(field, strlen(field)) ? field : "body", "%s", problem);
    if (rq->errors && problems.count) {
        if (json_array_size(rq->errors) < PROBLEMS_MAX)
            problems_list(&problems, rq->errors);
        return 0;
    }
    return no_memory(upload);
}

/* Always returns -1, after answering. */
static int wrong(struct upload *upload, const char *field, const char *problem)
{
    if (!note(upload, field, problem))
        reply_problems(upload_request(upload), 400, "The request is not valid", NULL);
    return -1;
}

static int too_large(struct upload *upload, const char *what, size_t limit)
{
    reply_error(upload_request(upload), 413, "%s larger than %zu bytes", what, limit);
    return -1;
}

/* ---- parts ---- */

/* Whether a part matches a row of the table: "NAME[]", as forms write lists, matches NAME. */
static bool is_named(const char *name, const char *row)
{
    size_t length = strlen(row);

    return !strncmp(name, row, length) && (!name[length] || !strcmp(name + length, "[]"));
}

static const struct bb_part *find_part(const struct upload *upload, const char *name)
{
    const struct bb_table *table = &upload_route(upload)->parts;
    const struct bb_part *parts = MODULE_ROWS(bb_part, *table), *any = NULL;

    for (size_t i = 0; i < table->count; i++) {
        if (is_named(name, parts[i].name))
            return &parts[i];
        if (!strcmp(parts[i].name, "*"))
            any = &parts[i];
    }
    return any;
}

static unsigned *count_of(const struct upload *upload, const struct bb_part *part)
{
    return &upload->counts[part - MODULE_ROWS(bb_part, upload_route(upload)->parts)];
}

static bool is_control(int32_t character)
{
    return character < 0x20 || (character >= 0x7f && character < 0xa0);
}

/* Returns valid UTF-8 of limited length without control characters, whatever the client sent. */
static const char *clean_name(struct upload *upload, const char *name)
{
    char *clean = arena_text(upload->txn->rq.arena, name, strlen(name)), *to = clean;
    size_t left = strlen(name), size;

    for (size_t i = 0; clean && left && i < NAME_MAX_CHARACTERS; i++) {
        if (is_control(text_code_point(name, left, &size)))
            *to++ = '?';
        else
            to = (char *)mempcpy(to, name, size);
        name += size;
        left -= size;
    }
    if (clean)
        *to = '\0';
    return clean;
}

/* An undeclared text is ignored; an undeclared file is an error, because it would be lost. */
static int unknown(struct upload *upload, const struct multipart_part *head)
{
    if (head->filename)
        return note(upload, head->name, "is not a part of this request");
    if (warnings_add(&upload_request(upload)->warnings,
                     "%s: is not a part of this request, and was ignored", head->name))
        return no_memory(upload);
    return 0;
}

static int part_begins(void *arg, const struct multipart_part *head)
{
    struct upload *upload = arg;
    const struct bb_part *part = find_part(upload, head->name);
    bool any = part && !strcmp(part->name, "*");

    upload->part = part;
    upload->file = NULL;
    upload->filename = NULL;
    if (++upload->parts > UPLOAD_PARTS_MAX)
        return wrong(upload, "body", "has too many parts");
    if (any && !head->filename && (!head->type || !strncasecmp(head->type, "text/plain", 10)))
        part = upload->part = NULL;
    if (!part)
        return unknown(upload, head);
    if (part->kind == BB_PART_FIELDS) {
        if ((*count_of(upload, part))++)
            return note(upload, part->name, "must be given once");
        return 0;
    }
    /* the row's own text, so that a module can compare pointers */
    upload->name = any ? clean_name(upload, head->name) : part->name;
    if (head->filename)
        upload->filename = clean_name(upload, head->filename);
    return upload->name && (upload->filename || !head->filename) ? 0 : no_memory(upload);
}

/* Returns 0, without a file if there are too many, which is then ignored; or -1. */
static int begin_file(struct upload *upload)
{
    struct arena *arena = upload->txn->rq.arena;
    struct upload_file *file;
    char uuid[TEXT_UUID_SIZE];

    if (*count_of(upload, upload->part) == upload->part->count_max)
        return note(upload, upload->name, "has too many files");
    (*count_of(upload, upload->part))++;
    text_uuid7(uuid);
    file = arena_alloc(arena, sizeof *file);
    if (!file)
        return no_memory(upload);
    file->fd = -1;
    file->pub = (struct bb_file){
        .size = sizeof file->pub,
        .part = upload->name,
        .name = upload->filename ? upload->filename : upload->name,
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

/* Exchanges the memory of this buffer with the other one's, if that is counted and was written. */
static bool take_over(struct upload *upload, struct upload_batch *batch)
{
    struct upload_batch *other =
        batch == upload->batches ? &upload->batches[1] : &upload->batches[0];
    char *bytes = other->bytes;

    if (!other->counted || other == upload->writing)
        return false;
    memcpy(bytes, batch->bytes, batch->length);
    other->bytes = batch->bytes;
    batch->bytes = bytes;
    other->counted = false;
    batch->counted = true;
    return true;
}

/*
 * Counts a buffer once it contains more than a little: until then the kernel has not allocated most
 * of its memory.
 */
static int take_room(struct upload *upload, struct upload_batch *batch, size_t length)
{
    if (batch->counted || length < BODY_LARGE || take_over(upload, batch))
        return 0;
    if (body_take_room(upload->txn, UPLOAD_ROOM))
        return -1;
    batch->counted = true;
    return 0;
}

/* Appends data of the file to the current batch. */
static int gather(struct upload *upload, const char *bytes, size_t length, bool last)
{
    struct upload_batch *batch = upload->filling;
    struct upload_segment *segment = batch->count ? &batch->segments[batch->count - 1] : NULL;

    if (!batch->bytes)
        batch->bytes = malloc(UPLOAD_ROOM);
    if (!batch->bytes || batch->length + length > UPLOAD_ROOM)
        return no_memory(upload);
    if (take_room(upload, batch, batch->length + length))
        return -1;
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

/* Counts disk space in steps. Returns 0, or -1 if it has answered. */
static int take_disk(struct upload *upload)
{
    struct core_request *rq = upload_request(upload);
    size_t more = UPLOAD_DISK_STEP;

    if (upload->files_length <= upload->on_disk.bytes)
        return 0;
    if (more < upload->files_length - upload->on_disk.bytes)
        more = upload->files_length - upload->on_disk.bytes;
    struct quota_limits bounds = quota_bounds(rq->generation, QUOTA_UPLOADS);

    if (!quota_charge(rq, QUOTA_UPLOADS, &upload->on_disk, more, &bounds))
        return 0;
    reply_failed(rq);
    return -1;
}

static int file_data(struct upload *upload, const char *bytes, size_t length)
{
    const struct bb_part *part = upload->part;

    if (!upload->file && begin_file(upload))
        return -1;
    if (!upload->file)
        return 0;
    upload->file->pub.length += (int64_t)length;
    upload->files_length += length;
    if ((size_t)upload->file->pub.length > part->bytes_max)
        return too_large(upload, "A file is", part->bytes_max);
    if (upload->files_length > upload_route(upload)->files_max)
        return too_large(upload, "The files are together", upload_route(upload)->files_max);
    return take_disk(upload) ? -1 : gather(upload, bytes, length, false);
}

static int part_data(void *arg, const char *bytes, size_t length)
{
    struct upload *upload = arg;
    struct http_txn *txn = upload->txn;

    if (!upload->part)
        return 0;
    if (upload->part->kind == BB_PART_FILES)
        return file_data(upload, bytes, length);

    return body_keep(txn, bytes, length, txn->rq.generation->request.max_body) ? -1 : 0;
}

/* A file without data must have a file name; otherwise it is an empty field of a form. */
static int part_ends(void *arg)
{
    struct upload *upload = arg;

    if (!upload->part || upload->part->kind != BB_PART_FILES)
        return 0;
    if (!upload->file && (!upload->filename || !*upload->filename))
        return 0;
    if (!upload->file && begin_file(upload))
        return -1;
    return upload->file ? gather(upload, "", 0, true) : 0;
}

const struct multipart_calls upload_parts = {part_begins, part_data, part_ends};

int upload_parts_check(struct upload *upload)
{
    const struct bb_table *table = &upload_route(upload)->parts;
    const struct bb_part *parts = MODULE_ROWS(bb_part, *table);

    for (size_t i = 0; i < table->count; i++)
        if (parts[i].flags & BB_REQUIRED && !upload->counts[i])
            return wrong(upload, parts[i].name, "is required");
    return 0;
}
