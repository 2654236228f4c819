#include "core/server/body.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/lib/json.h"
#include "core/lib/log.h"
#include "core/lib/multipart.h"
#include "core/lib/text.h"
#include "core/module/module_load.h"
#include "core/module/pool.h"
#include "core/module/reply.h"

#define JSON_TYPE "application/json"
#define FORM_TYPE "application/x-www-form-urlencoded"
#define RETRY_SECONDS "5"

enum {
    VALUES_MAX = 12000,                      /* maximum values of JSON if the route sets no limit */
    UPLOAD_HEADS = 1024 * 1024,              /* maximum bytes of boundaries and part heads */
    CHUNK = 512 * 1024,                      /* a batch of this size goes to the pool */
    ROOM = 544 * 1024,                       /* size of a buffer: CHUNK and one more piece */
    UNCOUNTED = BODY_LARGE - (ROOM - CHUNK), /* still below BODY_LARGE with one more piece */
    SEGMENTS_MAX = 128,
    DISK_STEP = 256 * 1024, /* disk space is counted in steps of this size */
    OPEN_MAX = 16,          /* after this many complete files, all are synced to disk */
    PARTS_MAX = 256,        /* maximum of parts in a body, including empty parts */
    NAME_MAX_CHARACTERS = 255,
    FILE_MODE = 0600,
    DIRECTORY_MODE = 0700
};

bool body_follows(const struct http_txn *txn)
{
    return txn->head.length > 0 || txn->head.chunked;
}

/* Returns the text after this media type and blanks; NULL if the type differs. */
static const char *body_after_type(const char *value, const char *type)
{
    size_t length = strlen(type);

    if (strncasecmp(value, type, length) != 0)
        return NULL;
    value += length;
    value += strspn(value, " \t");
    return !*value || *value == ';' ? value : NULL;
}

/* Returns whether the media type is `type`, with no parameter other than charset=utf-8. */
static bool body_type_is(const char *value, const char *type)
{
    static const char *const utf8[] = {"utf-8", "utf8", "\"utf-8\"", "\"utf8\""};
    const char *rest = body_after_type(value, type);

    if (!rest)
        return false;
    rest += *rest == ';';
    rest += strspn(rest, " \t");
    if (!*rest)
        return true;
    if (strncasecmp(rest, "charset=", 8) != 0)
        return false;
    for (size_t i = 0; i < sizeof utf8 / sizeof *utf8; i++) {
        if (!strcasecmp(rest + 8, utf8[i]))
            return true;
    }
    return false;
}

/*
 * Returns whether a body that is not declared as JSON is read as JSON. This requires a token: a
 * browser would send plain text on behalf of a page of another site, but not a token.
 */
static bool body_is_vouched(const struct http_txn *txn, const char *type)
{
    static const char top[] = "application/", suffix[] = "+json"; /* application/…+json */
    size_t length = strcspn(type, "; \t"), own = strlen(suffix);

    if (!txn->rq.pub.principal || !txn->match.route->body.count)
        return false;
    return !*type || body_after_type(type, JSON_TYPE) || body_after_type(type, "text/plain") ||
           (length > strlen(top) + own && !strncasecmp(type, top, strlen(top)) &&
            !strncasecmp(type + length - own, suffix, own));
}

static enum body_kind body_kind_of(const struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;
    const char *type = head_value(&txn->head, "Content-Type");
    char boundary[MULTIPART_BOUNDARY_MAX + 1];

    if (!type)
        type = "";
    if (body_type_is(type, JSON_TYPE))
        return BODY_JSON;
    if (route->flags & BB_FORM_TOO &&
        body_after_type(type, FORM_TYPE)) /* ignores the charset; the body must be UTF-8 */
        return BODY_FORM;
    if (route->parts.count && multipart_boundary(type, boundary))
        return BODY_PARTS;
    return body_is_vouched(txn, type) ? BODY_JSON : BODY_OTHER;
}

static int body_check_type(struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;
    const char *encoding = head_value(&txn->head, "Content-Encoding");
    const char *types = route->flags & BB_FORM_TOO ? JSON_TYPE " in UTF-8, or " FORM_TYPE
                        : !route->parts.count      ? JSON_TYPE " in UTF-8"
                        : route->body.count        ? JSON_TYPE " in UTF-8, or multipart/form-data"
                                                   : "multipart/form-data";

    if (encoding && *encoding && strcasecmp(encoding, "identity") != 0)
        return reply_error(&txn->rq, 415, "Content-Encoding is not supported");
    if ((route->body.count || route->parts.count) && txn->kind == BODY_OTHER)
        return reply_error(&txn->rq, 415, "The body must be %s", types);
    return 0;
}

static int body_too_large(struct http_txn *txn, size_t limit)
{
    return reply_error(&txn->rq, 413, "The body is larger than %zu bytes", limit);
}

int body_expect(struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;
    struct host_handle *owner = txn->match.owner;
    int64_t declared = txn->head.length;
    bool follows = body_follows(txn);

    txn->kind = follows ? body_kind_of(txn) : BODY_OTHER;
    txn->chunked = follows && declared < 0;
    txn->limit =
        route->body_max ? route->body_max : (size_t)txn->rq.generation->host->http.max_body;
    if (txn->kind == BODY_PARTS)
        txn->limit += route->files_max + UPLOAD_HEADS;
    if (declared > (int64_t)txn->limit)
        return body_too_large(txn, txn->limit);
    if (txn->kind == BODY_PARTS && route->files_in &&
        !generation_directory(&owner->host, route->files_in))
        return reply_error(&txn->rq, 409, "The module that stores the files is not loaded");
    return declared > 0 ? body_check_type(txn) : 0;
}

/* ---- memory ---- */

int body_refuse_room(struct core_request *rq, enum quota quota, enum quota_result why)
{
    quota_fail(rq, quota, why);
    if (why != QUOTA_OWN_FULL)
        return reply_failed(rq);
    reply_header(rq, "Retry-After", RETRY_SECONDS);
    return reply_error(rq, 429, "Too many large %s in progress for this %s", quota_names[quota],
                       rq->owner.account ? "account" : "address");
}

static enum quota_result body_count(struct http_txn *txn, size_t bytes)
{
    struct quota_limits bounds = quota_bounds(txn->rq.generation, QUOTA_BODIES);

    return quota_take(&quota_tables[QUOTA_BODIES], &txn->body_charge, &txn->rq.owner, bytes,
                      &bounds);
}

/*
 * Charges more bytes to this transaction. Returns 0; if there is no room, answers with 429 or 503
 * and returns the status. With 0 bytes (small body), does not lock the table that all loops share.
 */
static int body_take_room(struct http_txn *txn, size_t bytes)
{
    enum quota_result answer = bytes ? body_count(txn, bytes) : QUOTA_TAKEN;

    return answer == QUOTA_TAKEN ? 0 : body_refuse_room(&txn->rq, QUOTA_BODIES, answer);
}

/* Returns how many bytes count against http.max_bodies; 0 for a small body. */
static size_t body_counted(size_t length)
{
    return length < BODY_LARGE ? 0 : length;
}

void body_drop(struct http_txn *txn)
{
    if (body_counted(txn->length))
        quota_release(&quota_tables[QUOTA_BODIES], &txn->body_charge, body_counted(txn->length));
    free(txn->bytes);
    txn->bytes = NULL;
    txn->length = txn->room = 0;
}

/* Appends to the body. Returns 0; above `limit`, or on errors, answers and returns the status. */
static int body_keep(struct http_txn *txn, const char *data, size_t size, size_t limit)
{
    size_t needed = txn->length + size;

    if (needed > limit)
        return body_too_large(txn, limit);
    int refused = body_take_room(txn, body_counted(needed) - body_counted(txn->length));

    if (refused)
        return refused;
    if (needed > txn->room) {
        int64_t declared = txn->kind == BODY_PARTS ? 0 : txn->head.length;
        size_t room = declared > 0 ? (size_t)declared : needed * 2;
        char *bytes = realloc(txn->bytes, room < needed ? needed : room);

        if (!bytes)
            return reply_failure(&txn->rq, FAILED_MEMORY);
        txn->bytes = bytes;
        txn->room = room < needed ? needed : room;
    }
    memcpy(txn->bytes + txn->length, data, size);
    txn->length = needed;
    return 0;
}

/*
 * ---- uploads: multipart bodies ----
 *
 * The loop parses arriving data and collects file data in one of two buffers, while a thread of the
 * module's pool writes the other; if both are full, the connection is suspended. So memory is
 * independent of the size of the upload, and the disk never blocks the loop. The buffers count
 * among the large bodies in memory; if a second buffer would exceed the limit, the upload uses
 * one. Files are stored in `incoming/` of the route's directory, and synced to disk (fsync) before
 * the handler gets them. Files that the handler did not move are deleted when the request ends.
 * Everything runs on the loop, except upload_write_batch() and upload_discard(), which run in the
 * pool and use only the files and the batch that was passed to them. While the pool works, the HTTP
 * transaction cannot be freed: see upload_end().
 */

/* A file, allocated in the arena of the request. */
struct upload_file {
    struct bb_file pub; /* first member */
    struct upload_file *next;
    char sha256[65];
    int fd;             /* -1: not open */
    bool begun;         /* pub.path may exist on disk */
    EVP_MD_CTX *digest; /* freed by upload_discard() */
    struct upload_file *next_written;
};

/* Data of one file in a batch. */
struct upload_segment {
    struct upload_file *file;
    size_t length;
    bool last; /* the end of the file */
};

struct upload_batch {
    char *bytes; /* ROOM bytes, allocated on first use */
    size_t length;
    struct upload_segment segments[SEGMENTS_MAX];
    size_t count;
    bool counted; /* its ROOM bytes count against http.max_bodies */
};

struct upload {
    struct pool_call call; /* first member; one call at a time */
    struct http_txn *txn;
    const char *directory;
    struct multipart parser;
    const struct bb_part *part; /* the current part; NULL: the part is ignored */
    const char *name;           /* the name of the part */
    const char *filename;       /* the file name that the client sent; NULL: none */
    struct upload_file *file;   /* the file of the part; NULL until its first bytes arrive */
    struct upload_file *files, **files_end;
    size_t files_length;         /* bytes of all files */
    struct quota_charge on_disk; /* disk space, charged in steps of DISK_STEP bytes */
    size_t parts;                /* number of parts that have begun, including ignored ones */
    unsigned *counts;            /* for each row of the route's `parts`: how many have arrived */
    struct upload_batch batches[2];
    struct upload_batch *filling, *writing; /* writing NULL: the pool is idle */
    int error;                   /* errno of a failure in the pool; read while `writing` is NULL */
    struct upload_file *written; /* complete files that are not yet synced and closed */
    unsigned written_count;
    bool last;     /* `writing` is the last batch */
    bool stalled;  /* the connection is suspended until the pool has written */
    bool finished; /* the body is complete */
    bool idle;     /* all files are on disk, or `error` is set */
    bool ended;    /* the HTTP transaction is over */
};

/* ---- in the pool: writing batches, and deleting files that were not kept ---- */

static int upload_open_new(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
}

/* Creates the file, and the directory on first use. Returns 0, or -1 with errno. */
static int upload_create_file(const struct upload *upload, struct upload_file *file)
{
    char path[4096];

    file->begun = true;
    file->fd = upload_open_new(file->pub.path);
    if (file->fd < 0 && errno == ENOENT) {
        if (snprintf(path, sizeof path, "%s/incoming", upload->directory) >= (int)sizeof path) {
            errno = ENAMETOOLONG;
            return -1;
        }
        if ((mkdir(upload->directory, DIRECTORY_MODE) && errno != EEXIST) ||
            (mkdir(path, DIRECTORY_MODE) && errno != EEXIST))
            return -1;
        file->fd = upload_open_new(file->pub.path);
    }
    if (file->fd < 0)
        return -1;
    file->digest = EVP_MD_CTX_new();
    if (file->digest && EVP_DigestInit_ex(file->digest, EVP_sha256(), NULL))
        return 0;
    errno = ENOMEM;
    return -1;
}

/* Returns 0, or -1 with errno. */
static int upload_write_segment(struct upload *upload, const struct upload_segment *segment,
                                const char *bytes)
{
    struct upload_file *file = segment->file;
    unsigned char digest[32];

    if (!file->begun && upload_create_file(upload, file))
        return -1;
    if (!EVP_DigestUpdate(file->digest, bytes, segment->length)) {
        errno = ENOMEM;
        return -1;
    }
    for (size_t done = 0; done < segment->length;) {
        ssize_t wrote = write(file->fd, bytes + done, segment->length - done);

        if (wrote < 0 && errno != EINTR)
            return -1;
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    /* start writing to disk now, so that fsync() at the end has little to wait for */
    (void)sync_file_range(file->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    if (!segment->last)
        return 0;
    if (!EVP_DigestFinal_ex(file->digest, digest, NULL)) {
        errno = ENOMEM;
        return -1;
    }
    text_hex(digest, sizeof digest, file->sha256);
    file->next_written = upload->written;
    upload->written = file;
    upload->written_count++;
    return 0;
}

/* Syncs all open files. The first fsync() usually also writes the data of the other files. */
static int upload_sync_files(struct upload *upload)
{
    while (upload->written) {
        struct upload_file *file = upload->written;
        int fd = file->fd;

        if (fsync(fd))
            return -1;
        upload->written = file->next_written;
        file->fd = -1;
        if (close(fd))
            return -1;
    }
    upload->written_count = 0;
    return 0;
}

/* Writes the batch `writing`. Syncs complete files if there are OPEN_MAX or the batch is last. */
static void upload_write_batch(void *arg)
{
    struct upload *upload = arg;
    const struct upload_batch *batch = upload->writing;
    const char *bytes = batch->bytes;

    for (size_t i = 0; i < batch->count && !upload->error; i++) {
        if (upload_write_segment(upload, &batch->segments[i], bytes))
            upload->error = errno ? errno : EIO;
        bytes += batch->segments[i].length;
    }
    if (!upload->error && (upload->last || upload->written_count >= OPEN_MAX) &&
        upload_sync_files(upload))
        upload->error = errno ? errno : EIO;
}

static void upload_discard(void *arg)
{
    struct upload *upload = arg;

    for (struct upload_file *file = upload->files; file; file = file->next) {
        if (file->fd >= 0)
            close(file->fd);
        EVP_MD_CTX_free(file->digest);
        if (file->begun)
            unlink(file->pub.path);
    }
}

/* ---- passing batches to the pool ---- */

static struct upload_batch *upload_other_batch(struct upload *upload)
{
    return &upload->batches[upload->filling == upload->batches];
}

static void upload_submit(struct upload *upload, void (*run)(void *),
                          void (*done)(struct message *))
{
    struct core_request *rq = &upload->txn->rq;
    const struct host_handle *owner = upload->txn->match.owner;

    upload->call = (struct pool_call){
        .message.run = done, .loop = rq->loop, .owner = rq->owner, .run = run, .arg = upload};
    /* `bounded` is false: each connection has at most one upload, with one call at a time */
    pool_submit(rq->generation->pools, &owner->host,
                upload->txn->match.route->files_pool, // NOLINT(clang-analyzer-core.NullDereference)
                &upload->call, false);
}

/*
 * Returns whether the batch should go to the pool. A batch whose buffer does not count against
 * http.max_bodies must stay small while the other buffer counts or is being written.
 */
static bool upload_is_full(struct upload *upload)
{
    const struct upload_batch *batch = upload->filling;
    bool small = !batch->counted && (upload->writing || upload_other_batch(upload)->counted);

    return batch->length >= (small ? UNCOUNTED : CHUNK) || batch->count >= SEGMENTS_MAX / 2;
}

static void upload_written(struct message *message);

/* If the pool is idle, passes it the batch `filling`, provided it is full or the last one. */
static void upload_flush(struct upload *upload)
{
    struct upload_batch *filling = upload->filling;

    if (upload->writing)
        return;
    if (upload->error || (!filling->count && !upload->written)) {
        upload->idle = upload->finished;
        return;
    }
    if (!upload->finished && !upload_is_full(upload))
        return;
    upload->last = upload->finished;
    upload->writing = filling;
    upload->filling = upload_other_batch(upload);
    upload_submit(upload, upload_write_batch, upload_written);
}

static void upload_written(struct message *message)
{
    struct upload *upload = (struct upload *)(void *)message;

    upload->writing->length = 0;
    upload->writing->count = 0;
    upload->writing = NULL;
    if (upload->ended) {
        upload_end(upload);
        return;
    }
    upload_flush(upload);
    if (upload->stalled) {
        upload->stalled = false;
        MHD_resume_connection(upload->txn->mhd);
    }
    if (upload->idle)
        request_wake(&upload->txn->rq);
}

/*
 * Sets and returns `stalled`: whether the connection must be suspended, because both buffers are
 * full. If `filling` has become large meanwhile, first tries to charge its buffer.
 */
static bool upload_stalls(struct upload *upload)
{
    struct upload_batch *filling = upload->filling;

    if (upload->writing && !filling->counted && filling->length >= UNCOUNTED)
        filling->counted = body_count(upload->txn, ROOM) == QUOTA_TAKEN;
    upload->stalled = upload->writing && upload_is_full(upload);
    return upload->stalled;
}

/* ---- errors: functions that return 0, or -1 after answering ---- */

static int upload_no_memory(struct upload *upload)
{
    reply_failure(&upload->txn->rq, FAILED_MEMORY);
    return -1;
}

/* Adds an error to rq->errors, which the response will list. Ignores the rest of this part. */
static int upload_note(struct upload *upload, const char *field, const char *text)
{
    struct core_request *rq = &upload->txn->rq;
    struct problems problems = {.arena = rq->arena};

    upload->part = NULL;
    if (!rq->errors)
        rq->errors = json_array();
    problems_add(&problems, text_utf8(field, strlen(field)) ? field : "body", text);
    if (!rq->errors || !problems.count)
        return upload_no_memory(upload);
    if (json_array_size(rq->errors) < PROBLEMS_MAX)
        problems_list(&problems, rq->errors);
    return 0;
}

/* Answers with an error of a part, and returns -1. */
static int upload_wrong(struct upload *upload, const char *field, const char *text)
{
    if (!upload_note(upload, field, text))
        reply_problems(&upload->txn->rq, 400, "The request is not valid", NULL);
    return -1;
}

/* ---- parts: callbacks of the parser ---- */

/* Finds a part by its name: "NAME[]", as forms write lists, matches NAME. */
static const struct bb_part *upload_find_part(const struct upload *upload, const char *name)
{
    const struct bb_part *any = NULL;

    MODULE_EACH (bb_part, part, upload->txn->match.route->parts) {
        size_t length = strlen(part->name);

        if (!strncmp(name, part->name, length) && (!name[length] || !strcmp(name + length, "[]")))
            return part;
        if (!strcmp(part->name, "*"))
            any = part;
    }
    return any;
}

static unsigned *upload_count_of(const struct upload *upload, const struct bb_part *part)
{
    return &upload->counts[part - MODULE_ROWS(bb_part, upload->txn->match.route->parts)];
}

/* Copies up to NAME_MAX_CHARACTERS; controls and invalid bytes become '?'. NULL: out of memory. */
static const char *upload_clean_name(struct upload *upload, const char *name)
{
    char *clean = arena_text(upload->txn->rq.arena, name, strlen(name)), *to = clean;
    size_t left = strlen(name), size;

    for (size_t i = 0; clean && left && i < NAME_MAX_CHARACTERS; i++) {
        int32_t character = text_code_point(name, left, &size);

        if (character < 0x20 || (character >= 0x7f && character < 0xa0))
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

/* Begins a part. Ignores an undeclared text; refuses an undeclared file, which would be lost. */
static int upload_begin_part(void *arg, const struct multipart_part *head)
{
    struct upload *upload = arg;
    const struct bb_part *part = upload_find_part(upload, head->name);
    bool any = part && !strcmp(part->name, "*");

    if (any && !head->filename && (!head->type || !strncasecmp(head->type, "text/plain", 10)))
        part = NULL;
    upload->part = part;
    upload->file = NULL;
    upload->filename = NULL;
    if (++upload->parts > PARTS_MAX)
        return upload_wrong(upload, "body", "has too many parts");
    if (!part && head->filename)
        return upload_note(upload, head->name, "is not a part of this request");
    if (!part) {
        if (warnings_add(&upload->txn->rq.warnings,
                         "%s: is not a part of this request, and was ignored", head->name))
            return upload_no_memory(upload);
        return 0;
    }
    if (part->kind == BB_PART_FIELDS) {
        if ((*upload_count_of(upload, part))++)
            return upload_note(upload, part->name, "must be given once");
        return 0;
    }
    /* uses the route's text, so that modules may compare pointers instead of texts */
    upload->name = any ? upload_clean_name(upload, head->name) : part->name;
    if (head->filename)
        upload->filename = upload_clean_name(upload, head->filename);
    return upload->name && (upload->filename || !head->filename) ? 0 : upload_no_memory(upload);
}

/* Begins a file. If there are too many, records an error and ignores the file. */
static int upload_begin_file(struct upload *upload)
{
    struct arena *arena = upload->txn->rq.arena;
    struct upload_file *file;
    char uuid[TEXT_UUID_SIZE];

    if (*upload_count_of(upload, upload->part) == upload->part->count_max)
        return upload_note(upload, upload->name, "has too many files");
    (*upload_count_of(upload, upload->part))++;
    text_uuid7(uuid);
    file = arena_alloc(arena, sizeof *file);
    if (!file)
        return upload_no_memory(upload);
    file->fd = -1;
    file->pub = (struct bb_file){
        .size = sizeof file->pub,
        .part = upload->name,
        .name = upload->filename ? upload->filename : upload->name,
        .path = arena_format(arena, "%s/incoming/%s", upload->directory, uuid),
        .sha256 = file->sha256,
    };
    if (!file->pub.path)
        return upload_no_memory(upload);
    *upload->files_end = file;
    upload->files_end = &file->next;
    upload->file = file;
    return 0;
}

/* Appends data of the current file to the batch `filling`; `last`: the file ends here. */
static int upload_collect(struct upload *upload, const char *bytes, size_t length, bool last)
{
    struct upload_batch *batch = upload->filling;
    struct upload_segment *segment = batch->count ? &batch->segments[batch->count - 1] : NULL;

    if (!batch->bytes)
        batch->bytes = malloc(ROOM);
    if (!batch->bytes || batch->length + length > ROOM)
        return upload_no_memory(upload);
    if (!batch->counted && batch->length + length >= BODY_LARGE) {
        /* charges the buffer only now, because its pages use no memory until they are written */
        if (body_take_room(upload->txn, ROOM))
            return -1;
        batch->counted = true;
    }
    if (!segment || segment->file != upload->file) {
        if (batch->count == SEGMENTS_MAX)
            return upload_no_memory(upload);
        segment = &batch->segments[batch->count++];
        *segment = (struct upload_segment){.file = upload->file};
    }
    memcpy(batch->bytes + batch->length, bytes, length);
    batch->length += length;
    segment->length += length;
    segment->last = last;
    return 0;
}

static int upload_take_part(void *arg, const char *bytes, size_t length)
{
    struct upload *upload = arg;
    struct http_txn *txn = upload->txn;
    struct core_request *rq = &txn->rq;
    const struct bb_part *part = upload->part;

    if (!part)
        return 0;
    if (part->kind != BB_PART_FILES)
        return body_keep(txn, bytes, length,
                         txn->limit - txn->match.route->files_max - UPLOAD_HEADS)
                   ? -1
                   : 0;
    if (!upload->file && upload_begin_file(upload))
        return -1;
    if (!upload->file)
        return 0;
    upload->file->pub.length += (int64_t)length;
    upload->files_length += length;
    if ((size_t)upload->file->pub.length > part->bytes_max) {
        reply_error(rq, 413, "A file is larger than %zu bytes", part->bytes_max);
        return -1;
    }
    if (upload->files_length > txn->match.route->files_max) {
        reply_error(rq, 413, "The files together exceed %zu bytes", txn->match.route->files_max);
        return -1;
    }
    if (upload->files_length > upload->on_disk.bytes) { /* counts disk space in steps */
        size_t lacks = upload->files_length - upload->on_disk.bytes;
        struct quota_limits bounds = quota_bounds(rq->generation, QUOTA_UPLOADS);

        if (quota_charge(rq, QUOTA_UPLOADS, &upload->on_disk, lacks > DISK_STEP ? lacks : DISK_STEP,
                         &bounds)) {
            reply_failed(rq);
            return -1;
        }
    }
    return upload_collect(upload, bytes, length, false);
}

/* Ends a part. A part without data and file name is an empty form field, and is ignored. */
static int upload_end_part(void *arg)
{
    struct upload *upload = arg;

    if (!upload->part || upload->part->kind != BB_PART_FILES)
        return 0;
    if (!upload->file && (!upload->filename || !*upload->filename))
        return 0;
    if (!upload->file && upload_begin_file(upload))
        return -1;
    return upload->file ? upload_collect(upload, "", 0, true) : 0;
}

static const struct multipart_calls upload_calls = {upload_begin_part, upload_take_part,
                                                    upload_end_part};

/* ---- the body ---- */

static int upload_not_stored(struct upload *upload)
{
    const struct bb_route *route = upload->txn->match.route;
    struct host_handle *owner = upload->txn->match.owner;
    char buffer[128];

    if (route->files_failed)
        route->files_failed(&owner->host);
    log_line(BB_ERROR, "files cannot be stored", "directory", upload->directory, "reason",
             strerror_r(upload->error, buffer, sizeof buffer), "request", upload->txn->id, NULL);
    return reply_error(&upload->txn->rq, 503, "Files cannot be stored at the moment");
}

/* Starts an upload with this boundary. Returns 0, or answers and returns the status. */
static int upload_begin(struct http_txn *txn, const char *boundary)
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
            upload->directory = generation_directory(&owner->host, route->files_in);
    }
    if (!upload || !upload->counts ||
        multipart_init(&upload->parser, boundary, &upload_calls, upload)) {
        free(upload);
        return reply_failure(&txn->rq, FAILED_MEMORY);
    }
    txn->upload = upload;
    return 0;
}

/* Ends the upload, because the body is complete. Returns 0, or answers and returns the status. */
static int upload_complete(struct upload *upload)
{
    struct core_request *rq = &upload->txn->rq;
    if (!multipart_complete(&upload->parser))
        return reply_error(rq, 400, "Malformed multipart body: the last boundary is missing");
    MODULE_EACH (bb_part, part, upload->txn->match.route->parts)
        if (part->flags & BB_REQUIRED && !*upload_count_of(upload, part)) {
            upload_wrong(upload, part->name, "is required");
            return rq->response.status;
        }
    upload->finished = true;
    upload_flush(upload);
    return 0;
}

int upload_wait(struct upload *upload)
{
    if (request_wait(&upload->txn->rq, &upload->idle))
        return reply_failed(&upload->txn->rq);
    return upload->error ? upload_not_stored(upload) : 0;
}

const char *upload_identity(struct upload *upload, size_t *length)
{
    const struct http_txn *txn = upload->txn;
    size_t fields = txn->bytes ? strnlen(txn->bytes, txn->length) : 0, room = fields + 1;

    for (const struct upload_file *file = upload->files; file; file = file->next)
        room += strlen(file->pub.part) + strlen(file->sha256) + strlen(file->pub.name) + 3;
    char *text = arena_alloc(txn->rq.arena, room), *end = text;

    if (!text)
        return NULL;
    if (fields)
        end = mempcpy(text, txn->bytes, fields);
    for (const struct upload_file *file = upload->files; file; file = file->next) {
        end = stpcpy(stpcpy(stpcpy(end, "\n"), file->pub.part), " ");
        end = stpcpy(stpcpy(stpcpy(end, file->sha256), " "), file->pub.name);
    }
    *end = '\0';
    *length = (size_t)(end - text);
    return text;
}

static void upload_discarded(struct message *message)
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
    upload->txn->rq.cut = NULL; /* the connection no longer exists */
    if (upload->writing)
        return;
    if (upload->files)
        upload_submit(upload, upload_discard, upload_discarded);
    else
        upload_discarded(&upload->call.message);
}

/* ---- pieces ---- */

/*
 * Stores a piece of the body, or passes it to the upload. Ignores a body that the route does not
 * declare, unless Idempotency-Key needs it (BB_CREATES). Returns 0 or an error's status.
 */
static int body_take_piece(struct http_txn *txn, const char *data, size_t size)
{
    const struct bb_route *route = txn->match.route;

    if (txn->chunked && body_check_type(txn))
        return txn->rq.response.status;
    txn->chunked = false;
    if (txn->kind != BODY_PARTS && (route->body.count || route->flags & BB_CREATES))
        return body_keep(txn, data, size, txn->limit);
    if (txn->kind == BODY_PARTS)
        txn->connection->http->again = true;
    if (txn->kind == BODY_PARTS && !txn->upload) {
        int64_t declared = txn->head.length; /* the time limit depends on it */
        char boundary[MULTIPART_BOUNDARY_MAX + 1];
        int found = multipart_boundary(head_value(&txn->head, "Content-Type"), boundary);

        if (found == -2)
            return reply_failure(&txn->rq, FAILED_MEMORY);
        if (found < 0)
            return reply_error(&txn->rq, 400, "The boundary of the multipart body is not valid");
        connection_stage(txn->connection, STAGE_BODY, declared > 0 ? (size_t)declared : 0);
        if (upload_begin(txn, boundary))
            return txn->rq.response.status;
    }
    txn->taken += size;
    if (txn->taken > txn->limit)
        return body_too_large(txn, txn->limit);
    struct upload *upload = txn->upload;

    if (!upload)
        return 0;
    if (!upload->writing && upload->error)
        return upload_not_stored(upload);
    if (multipart_feed(&upload->parser, data, size)) {
        if (upload->parser.problem)
            reply_error(&txn->rq, 400, "Malformed multipart body: %s", upload->parser.problem);
        return txn->rq.response.status;
    }
    upload_flush(upload);
    return 0;
}

size_t body_take(struct http_txn *txn, const char *data, size_t size)
{
    size_t most = txn->upload && txn->limit > DRAIN_MAX ? txn->limit : DRAIN_MAX;
    const struct reader *reader = &txn->connection->reader;

    /* libmicrohttpd passes chunks that it has already read even if the connection is suspended:
     * leave them in its buffer */
    if (txn->upload && txn->upload->stalled)
        return size;
    if (txn->phase != PHASE_ANSWER) {
        if (reader->status) {
            reply_error(&txn->rq, reader->status, "%s", reader->reason);
        } else if (!body_take_piece(txn, data, size)) {
            if (txn->upload && upload_stalls(txn->upload))
                MHD_suspend_connection(txn->mhd);
            return 0;
        }
        txn->phase = PHASE_ANSWER;
        body_drop(txn);
    }
    /* the response is decided: discards the rest, up to a limit */
    if (!txn->drop_body && txn->head.chunked)
        connection_drops_body(txn->connection, txn->rq.response.status);
    txn->drop_body = true;
    txn->dropped += size;
    if (txn->dropped > most)
        connection_stop_body(txn->connection, txn->rq.response.status);
    return 0;
}

/* ---- the whole body ---- */

/* Answers with 400, or with 503 if memory ran out, which may be why the check failed. */
static int body_refuse(struct http_txn *txn, const struct problems *problems)
{
    if (!problems->count || arena_starved(problems->arena))
        return reply_failure(&txn->rq, FAILED_MEMORY);
    json_t *errors = json_array();

    problems_list(problems, errors);
    return reply_problems(&txn->rq, 400, "The request is not valid", errors);
}

static int body_check_fields(struct http_txn *txn, struct problems *problems)
{
    const struct bb_route *route = txn->match.route;
    struct json_problem problem = {.text = ""};
    size_t most = route->values_max ? route->values_max : VALUES_MAX;
    json_t *object = !txn->length             ? json_object()
                     : txn->kind == BODY_FORM ? form_read(txn->bytes, txn->length, &problem)
                                              : json_read(txn->bytes, txn->length, most, &problem);

    if (!object && problem.memory)
        return reply_failure(&txn->rq, FAILED_MEMORY);
    if (!object && problem.line && txn->kind != BODY_FORM)
        return reply_error(&txn->rq, 400, "Malformed JSON in line %d, column %d: %s", problem.line,
                           problem.column, problem.text);
    if (!object)
        return reply_error(&txn->rq, 400, "Malformed body: %s", problem.text);
    if (!json_is_object(object)) {
        json_decref(object);
        problems_add(problems, "body", "must be an object");
        return body_refuse(txn, problems);
    }
    json_t *checked = fields_check(&route->body, object, problems);
    json_t *others = checked && route->flags & BB_KEEP_OTHERS ? object : NULL, *value;
    const char *name;
    bool lost = false;

    json_object_foreach (others, name, value) {
        if (!field_find(&route->body, name))
            lost |= json_object_set_nocheck(checked, name, value) != 0;
    }
    txn->rq.body = checked;
    json_decref(object);
    if (lost)
        return reply_failure(&txn->rq, FAILED_MEMORY);
    return checked ? 0 : body_refuse(txn, problems);
}

struct fields_call {
    struct http_txn *txn;
    struct problems *problems;
    int refused;
};

static void body_check_fields_beside(void *arg)
{
    struct fields_call *call = arg;

    call->refused = body_check_fields(call->txn, call->problems);
}

/* Lets a pool thread parse the fields of a multipart body if they are large, see txn_handle(). Both
 * use the request's arena, so the files must be on disk first. */
static int body_check_parts(struct http_txn *txn, struct problems *problems)
{
    struct fields_call call = {.txn = txn, .problems = problems};
    int refused = upload_complete(txn->upload);

    if (refused || !txn->match.route->body.count)
        return refused;
    if (txn->length < BODY_LARGE)
        return body_check_fields(txn, problems);
    if (upload_wait(txn->upload))
        return txn->rq.response.status;
    if (pool_run(&txn->rq, body_check_fields_beside, &call))
        return reply_failed(&txn->rq);
    return call.refused;
}

int body_check(struct http_txn *txn)
{
    const struct route_match *match = &txn->match;
    const struct bb_route *route = match->route;
    struct core_request *rq = &txn->rq;
    struct problems problems = {.arena = rq->arena, .warnings = &rq->warnings};
    int refused = 0;
    bool handler_checks = false; /* the handler may find further errors */

    for (size_t i = 0; i < match->count; i++) {
        struct bb_field field = *match->segment[i].field;
        const char *text =
            text_percent(match->segment[i].start, match->segment[i].length, false, rq->arena);

        field.flags |= BB_REQUIRED; /* refuses a segment that contains only blanks */
        if (!text)
            problems_add(&problems, field.name, "is not properly encoded");
        else
            txn->segments[i] = field_check_text(&field, text, rq->arena, &problems);
    }
    refused = query_check(&route->query, txn->query, rq->arena, &txn->args, &problems);
    if (txn->args.ignored && reply_header(rq, "X-Ignored-Parameters", txn->args.ignored))
        refused = -1;
    if (refused || problems.count)
        return body_refuse(txn, &problems);
    if (txn->kind == BODY_PARTS && !txn->upload)
        return reply_error(rq, 400, "The multipart body is empty");
    if (txn->kind == BODY_PARTS)
        refused = body_check_parts(txn, &problems);
    else if (route->body.count)
        refused = body_check_fields(txn, &problems);
    for (size_t i = 0; i < route->body.count; i++)
        handler_checks = handler_checks || field_at(&route->body, i)->flags & BB_AS_SENT;
    if (!refused && rq->errors && !handler_checks)
        return reply_problems(rq, 400, "The request is not valid", NULL);
    return refused;
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
