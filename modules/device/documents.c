/*
 * Documents of devices: stores the files of a POST or PATCH and their rows; downloads and deletes
 * documents; and sweeps files that no document names.
 */
#include <busbar/lock.h>
#include <ctype.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <inttypes.h>
#include <magic.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utf8proc.h>

#include "modules/common/incoming.h"
#include "modules/device/device.h"

enum {
    DOCUMENTS_MAX = 100,
    TYPE = 128,
    SEEN = 64 * 1024, /* bytes of a file that libmagic reads */
    NAME_BYTES = 120  /* of a name in a header before it is encoded */
};

/* ---- types of files ---- */

/*
 * All threads share one libmagic cookie under a lock, because loading libmagic's database takes
 * longer than checking many files.
 */
struct type_finder {
    pthread_mutex_t lock;
    magic_t cookie;
    char seen[SEEN];
};

void type_finder_free(struct type_finder *finder)
{
    if (!finder)
        return;
    if (finder->cookie)
        magic_close(finder->cookie);
    pthread_mutex_destroy(&finder->lock);
    free(finder);
}

/* Configures libmagic so that it never runs a program to decompress a file. */
struct type_finder *type_finder_new(char *why, size_t size)
{
    struct type_finder *finder = calloc(1, sizeof(*finder));
    const char *reason = NULL;

    if (finder) {
        pthread_mutex_init(&finder->lock, NULL);
        finder->cookie = magic_open(MAGIC_MIME_TYPE | MAGIC_NO_CHECK_COMPRESS);
    }
    if (finder && finder->cookie && !magic_load(finder->cookie, NULL))
        return finder;
    if (finder && finder->cookie)
        reason = magic_error(finder->cookie);
    snprintf(why, size, "%s", reason ? reason : "out of memory");
    type_finder_free(finder);
    return NULL;
}

/* ---- calls of the store ---- */

/*
 * Runs a call of the store, or `run` if it is not NULL, in the store's pool, and counts the call.
 * `arg` begins with a struct store_job. Returns 0, or -1 if the function did not run.
 */
static int store_call(struct bb_request *rq, enum store_call call, void (*run)(void *), void *arg)
{
    const struct device *state = rq->state;
    struct store_job *job = arg;

    job->store = state->store;
    job->why[0] = '\0';
    if (bb_offload(rq, job->store->pool, run ? run : job->store->calls[call], arg)) {
        snprintf(job->why, STORE_WHY, "the store is busy");
        return -1;
    }
    bb_metric_add(rq->host, METRIC_CALLS, call, 1);
    if (*job->why)
        bb_metric_add(rq->host, METRIC_FAILURES, call, 1);
    return 0;
}

void device_files_failed(struct bb_host *host)
{
    bb_metric_add(host, METRIC_CALLS, STORE_KEEP, 1);
    bb_metric_add(host, METRIC_FAILURES, STORE_KEEP, 1);
}

/* ---- the files of a request ---- */

struct arrival {
    struct store_keep keep;
    struct type_finder *finder;
    size_t count;  /* number of files; files with the same content share an object */
    int64_t bytes; /* of all files */
    const struct bb_file *files[DOCUMENTS_MAX];
    const char *paths[DOCUMENTS_MAX], *objects[DOCUMENTS_MAX];
    const char *fresh[DOCUMENTS_MAX];
    size_t fresh_count;
    char types[DOCUMENTS_MAX][TYPE];
    json_t *rows; /* the documents' rows, for device_documents_add() */
};

static void documents_find_types(void *arg)
{
    struct arrival *arrival = arg;

    for (size_t i = 0; i < arrival->count; i++) {
        const char *found = NULL;

        BB_LOCKED(&arrival->finder->lock);
        int fd = open(arrival->files[i]->path, O_RDONLY | O_CLOEXEC);
        ssize_t length =
            fd < 0 ? -1 : read(fd, arrival->finder->seen, sizeof(arrival->finder->seen));

        if (fd >= 0)
            close(fd);
        if (length >= 0)
            found = magic_buffer(arrival->finder->cookie, arrival->finder->seen, (size_t)length);
        snprintf(arrival->types[i], TYPE, "%s", found ? found : "application/octet-stream");
    }
}

/*
 * Checks that the quota of the organization allows `bytes` more. Called before files are stored,
 * and in the transaction, because parallel requests may have added documents. Returns 0, or -1.
 */
static int documents_check_quota(struct bb_request *rq, struct bb_tx *tx, int64_t organization,
                                 int64_t bytes)
{
    static const struct bb_sql fit = {
        "SELECT busbar_require(coalesce((SELECT bytes FROM device_usage WHERE organisation ="
        " $1::bigint), 0) + $2::bigint <= $3::bigint, 409, $4)",
        0};
    int64_t most = ((const struct device *)rq->state)->settings->documents_per_organization;
    const char *over = bb_format(rq, "The organization may have %" PRId64 " bytes of %s at most",
                                 most, organization < 0 ? "attachments" : "documents");
    const struct bb_value values[] = {bb_i(organization), bb_i(bytes), bb_i(most), bb_t(over)};

    if (tx)
        return bb_add(rq, tx, &fit, values, 4) < 0 ? -1 : 0;
    return bb_query(rq, &fit, values, 4) ? 0 : -1;
}

/*
 * Chooses the name of the object for each file. If a document already has the same content, its
 * object is used; otherwise the object gets a new name, which is recorded in device_upload.
 */
static void documents_begin(struct bb_request *rq, struct arrival *arrival)
{
    static const struct bb_sql begin = {
        "WITH f AS (SELECT d->>'sha256' AS sha256, place FROM jsonb_array_elements($1::jsonb)"
        " WITH ORDINALITY AS e (d, place)), r AS MATERIALIZED (SELECT sha256, min(place) AS first,"
        " sha256 || '-' || gen_random_uuid() AS object FROM f GROUP BY sha256),"
        " known AS (SELECT DISTINCT ON (r.sha256) r.sha256, coalesce(d.object, r.sha256) AS object"
        " FROM r JOIN device_document d ON d.sha256 = decode(r.sha256, 'hex')),"
        " begun AS (INSERT INTO device_upload (object, begun_at) SELECT object, now() FROM r"
        " WHERE NOT EXISTS (SELECT FROM known k WHERE k.sha256 = r.sha256))"
        " SELECT coalesce(k.object, r.object), k.object IS NULL AND f.place = r.first"
        " FROM f JOIN r USING (sha256) LEFT JOIN known k USING (sha256) ORDER BY f.place",
        BB_SQL_WRITE};
    const char *now = bb_time_text(rq, bb_wall_ms(rq->host));

    arrival->rows = bb_hold(rq, json_array());
    for (size_t i = 0; i < arrival->count; i++) {
        const struct bb_file *file = arrival->files[i];

        bb_push(rq, arrival->rows,
                json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s}", "id", bb_new_uuid(rq), "field",
                          file->part, "name", file->name, "type", arrival->types[i], "size",
                          (json_int_t)file->length, "createdAt", now, "sha256", file->sha256));
    }
    const struct bb_rows *rows =
        bb_query_or_end(rq, &begin, BB_ARGS(bb_t(bb_json(rq, arrival->rows, NULL))));

    for (size_t i = 0; i < arrival->count; i++) {
        arrival->paths[i] = arrival->files[i]->path;
        arrival->objects[i] = bb_cell(rq, rows, i, 0);
        if (bb_cell_int(rq, rows, i, 1))
            arrival->fresh[arrival->fresh_count++] = arrival->objects[i];
        bb_set(rq, json_array_get(arrival->rows, i), "object", json_string(arrival->objects[i]));
    }
    arrival->keep.count = arrival->count;
    arrival->keep.paths = arrival->paths;
    arrival->keep.names = arrival->objects;
}

struct device_documents device_documents_take(struct bb_request *rq, int64_t organization)
{
    const struct device *state = rq->state;
    const struct bb_file *file = bb_file(rq, 0);
    struct device_documents documents = {.shown = "[]"};
    int refused = 0;
    size_t index;
    json_t *row;

    if (!file)
        return documents;
    struct arrival *arrival = bb_alloc(rq, sizeof(*arrival));
    struct store_keep *keep = &arrival->keep;

    for (; file && arrival->count < DOCUMENTS_MAX; file = bb_file(rq, arrival->count)) {
        arrival->files[arrival->count++] = file;
        arrival->bytes += file->length;
    }
    arrival->finder = state->finder;
    if (bb_offload(rq, DEVICE_POOL, documents_find_types, arrival))
        bb_end(rq, bb_failed(rq));
    for (size_t i = 0; i < arrival->count; i++) {
        const char *type = arrival->types[i];
        bool allowed = json_array_size(state->settings->document_types) == 0;

        /* An entry is a type, or a prefix such as "image/" followed by '*'. */
        json_array_foreach (state->settings->document_types, index, row) {
            const char *pattern = json_string_value(row);
            size_t prefix = strlen(pattern) - 1;

            allowed = allowed || !strcmp(pattern, type) ||
                      (prefix && pattern[prefix] == '*' && !strncmp(pattern, type, prefix));
        }
        if (!allowed)
            bb_end(rq, bb_fail(rq, 415, "%s: files of type %s are not accepted",
                               arrival->files[i]->part, type));
    }
    if (documents_check_quota(rq, NULL, organization, arrival->bytes))
        bb_end(rq, bb_failed(rq));
    documents_begin(rq, arrival);
    documents.uploads = arrival->fresh;
    documents.begun = arrival->fresh_count;
    if (store_call(rq, STORE_KEEP, NULL, keep)) {
        refused = bb_failed(rq);
    } else if (*keep->job.why) {
        bb_log(rq, BB_ERROR, "documents cannot be stored: %s", keep->job.why);
        refused = bb_fail(rq, 503, "Documents cannot be stored at the moment");
    }
    documents.until_ms = keep->until_ms;
    if (refused) {
        device_documents_drop(rq, &documents);
        bb_end(rq, refused);
    }
    documents.rows = bb_json(rq, arrival->rows, NULL);
    json_array_foreach (arrival->rows, index, row) {
        json_object_del(row, "sha256");
        json_object_del(row, "object");
    }
    documents.shown = bb_json(rq, arrival->rows, NULL);
    return documents;
}

/* Called after the commit, so that device_documents_drop() keeps the files. */
static void documents_added(struct bb_request *rq, struct bb_tx *tx, void *documents)
{
    (void)rq, (void)tx;
    ((struct device_documents *)documents)->begun = 0;
}

/*
 * Adds the documents' rows. A new object must have a row in device_upload, and a reused object must
 * have a document, which is locked. Otherwise the sweep may have deleted the object.
 */
static int documents_add(struct bb_request *rq, struct bb_tx *tx, const char *device,
                         const char *holder, int64_t organization,
                         struct device_documents *documents)
{
    static const struct bb_sql add = {
        "WITH r AS (SELECT r.*, ordinality AS place FROM ROWS FROM (jsonb_to_recordset($2::jsonb)"
        " AS (id uuid, field text, name text, type text, size bigint, sha256 text, object text,"
        " \"createdAt\" timestamptz)) WITH ORDINALITY AS r), ins AS ("
        "INSERT INTO device_document (id, device, organisation, field, name, type, size, sha256,"
        " object, created_at, place, holder) SELECT id, $1::bigint, $4::bigint, field, name, type,"
        " size, decode(sha256, 'hex'), object, \"createdAt\", place, $5 FROM r), ended AS ("
        "DELETE FROM device_upload WHERE object IN (SELECT object FROM r) RETURNING object)"
        " SELECT busbar_require(NOT EXISTS (SELECT FROM (SELECT field FROM r UNION ALL"
        " SELECT field FROM device_document WHERE device = $1::bigint) f GROUP BY field"
        " HAVING count(*) > 10), 409, 'A field has 10 documents at most'),"
        " busbar_require((SELECT count(*) FROM ended) = $3::bigint, 503,"
        " 'The documents took too long'),"
        " busbar_require(NOT EXISTS (SELECT FROM r WHERE object NOT IN (SELECT object FROM ended)"
        " AND NOT EXISTS (SELECT FROM device_document d"
        " WHERE coalesce(d.object, encode(d.sha256, 'hex')) = r.object"
        " FOR KEY SHARE SKIP LOCKED)), 503, 'Another document with this content was deleted "
        "meanwhile: try again')",
        BB_SQL_WRITE};

    if (!documents->rows)
        return 0;
    if (bb_add(rq, tx, &add,
               BB_ARGS(bb_t(device), bb_t(documents->rows), bb_i((int64_t)documents->begun),
                       bb_i(organization), bb_t(holder))) < 0 ||
        documents_check_quota(rq, tx, organization, 0))
        return -1;
    bb_after(rq, tx, documents_added, documents);
    return 0;
}

int device_documents_add(struct bb_request *rq, struct bb_tx *tx,
                         const struct device_record *device, struct device_documents *documents)
{
    return documents_add(rq, tx, bb_format(rq, "%" PRId64, device->id), NULL, device->organization,
                         documents);
}

/*
 * The transaction that adds documents also deletes the rows of their uploads. If this function
 * deletes a row first, that transaction fails. So deleting the file is safe even if the result of
 * the commit is unknown. If this function fails, the sweep deletes the files.
 */
void device_documents_drop(struct bb_request *rq, const struct device_documents *documents)
{
    static const struct bb_sql end = {
        "DELETE FROM device_upload WHERE object = ANY($1::text[]) RETURNING object", BB_SQL_WRITE};
    const struct bb_rows *rows = NULL;

    if (documents->begun)
        rows = bb_query(rq, &end, BB_ARGS(bb_texts(documents->uploads, documents->begun)));
    if (!rows)
        return;
    size_t count = bb_count(rq, rows);
    const char **list = bb_alloc(rq, (count + 1) * sizeof(*list));
    struct store_remove remove = {.count = count, .names = list, .until_ms = documents->until_ms};

    for (size_t i = 0; i < count; i++)
        list[i] = bb_cell(rq, rows, i, 0);
    store_call(rq, STORE_REMOVE, NULL, &remove);
    if (*remove.job.why)
        bb_log(rq, BB_WARN, "the files of a refused request are deleted by the next sweep");
}

/* ---- GET ---- */

const char *device_url_encoded(struct bb_request *rq, const char *text)
{
    char *encoded = curl_easy_escape(NULL, text, 0);

    if (encoded)
        bb_defer(rq, curl_free, encoded);
    return encoded;
}

/*
 * Returns a Content-Disposition with filename, and filename* (RFC 8187). Removes the path, the
 * beginning of a long name, leading dots and blanks, control characters, and characters that change
 * the direction of text.
 */
static const char *documents_disposition(struct bb_request *rq, const char *name)
{
    const char *at = name, *separator;
    char *plain = bb_alloc(rq, NAME_BYTES + 1), *to = plain;
    utf8proc_int32_t code;
    utf8proc_ssize_t size;

    while ((separator = strpbrk(at, "/\\")))
        at = separator + 1;
    if (strlen(at) > NAME_BYTES)
        at += strlen(at) - NAME_BYTES;
    while (((unsigned char)*at & 0xc0) == 0x80)
        at++;
    for (; (size = utf8proc_iterate((const utf8proc_uint8_t *)at, -1, &code)) > 0 && code;
         at += size) {
        bool omitted = code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e ||
                       code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                       (code >= 0x2066 && code <= 0x2069);

        if (!omitted && (to > plain || !strchr(". ", *at))) /* no hidden names */
            to = mempcpy(to, at, (size_t)size);
    }
    const char *encoded = to > plain ? device_url_encoded(rq, plain) : NULL;

    if (!encoded)
        return "attachment; filename=\"document\"";
    for (to = plain; *to; to++)
        if ((unsigned char)*to >= 0x80 || (!isalnum((unsigned char)*to) && !strchr("._- ", *to)))
            *to = '_';
    return bb_format(rq, "attachment; filename=\"%s\"; filename*=UTF-8''%s", plain, encoded);
}

/* Sends a file of `device` or of `holder`, one of which is NULL. A 404 names `what`. */
static int documents_send(struct bb_request *rq, const char *id, const char *device,
                          const char *holder, const char *what)
{
    static const struct bb_sql by_id = {
        "SELECT name, type, coalesce(object, encode(sha256, 'hex')), size FROM device_document"
        " WHERE id = $1::uuid AND (device = $2::bigint OR holder = $3)",
        0};
    const struct bb_rows *rows =
        bb_find_or_end(rq, &by_id, BB_ARGS(bb_t(id), bb_t(device), bb_t(holder)), what);
    struct store_open open = {
        .name = bb_cell(rq, rows, 0, 2), .length = bb_cell_int(rq, rows, 0, 3), .fd = -1};

    if (store_call(rq, STORE_OPEN, NULL, &open))
        return bb_failed(rq);
    if (open.fd < 0) {
        bb_log(rq, BB_ERROR, "document %s cannot be read: %s", open.name, open.job.why);
        return bb_fail(rq, 503, "The document cannot be read at the moment");
    }
    if (bb_reply_header(rq, "Content-Type", bb_cell(rq, rows, 0, 1)) < 0 ||
        bb_reply_header(rq, "Content-Disposition",
                        documents_disposition(rq, bb_cell(rq, rows, 0, 0))) < 0 ||
        bb_reply_header(rq, "Content-Security-Policy", "default-src 'none'; sandbox") < 0) {
        close(open.fd);
        return bb_failed(rq);
    }
    return bb_reply_file(rq, open.fd, open.length);
}

int device_download(struct bb_request *rq)
{
    int64_t device = device_in_path(rq, DEVICE_ONLY_FACTS).id;

    return documents_send(rq, bb_segment(rq, "documentId"), bb_format(rq, "%" PRId64, device), NULL,
                          "Document");
}

int device_documents_list(struct bb_request *rq)
{
    struct device_record record = device_in_path(rq, DEVICE_WHOLE);

    return bb_reply(rq, 200, bb_json_read(rq, record.documents));
}

/* ---- PATCH and DELETE ---- */

#define DOCUMENT_CHANGED(change)                                                                   \
    "WITH changed AS (" change " WHERE id = $1::uuid AND device = $2::bigint RETURNING device)"    \
    " UPDATE device d SET updated_at = greatest(now(), d.updated_at)"                              \
    " FROM changed WHERE d.id = changed.device RETURNING " DEVICE_FACTS

struct change {
    int64_t device;
    const char *name; /* the new name; NULL: delete the row */
};

/* Renames or deletes a document. The sweep deletes objects that no document has any more. */
static int documents_change(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql lock = {"SELECT FROM device WHERE id = $1::bigint FOR UPDATE", 0};
    static const struct bb_sql remove = {DOCUMENT_CHANGED("DELETE FROM device_document"), 0};
    static const struct bb_sql rename = {DOCUMENT_CHANGED("UPDATE device_document SET name = $3"),
                                         0};
    const struct change *change = arg;
    const struct bb_value values[] = {bb_t(bb_segment(rq, "documentId")), bb_i(change->device),
                                      bb_t(change->name)};

    bb_tx_query_or_end(rq, tx, &lock, BB_ARGS(bb_i(change->device)));
    const struct bb_rows *rows =
        bb_tx_query_or_end(rq, tx, change->name ? &rename : &remove, values, change->name ? 3 : 2);

    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "Document not found");
    struct device_record record = device_facts_of(rq, rows, 0, 0);

    if (device_emit(rq, tx, "device.updated", &record, json_pack("[s]", "documents")))
        return bb_failed(rq);
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

int device_document_rename(struct bb_request *rq)
{
    return bb_transaction(
        rq, documents_change,
        &(struct change){device_in_path(rq, DEVICE_ONLY_FACTS).id, bb_text(rq, "name")});
}

int device_document_delete(struct bb_request *rq)
{
    return bb_transaction(rq, documents_change,
                          &(struct change){device_in_path(rq, DEVICE_ONLY_FACTS).id, NULL});
}

/*
 * ---- the service "documents:devices" ----
 *
 * Stores contents and files of other modules. The sweep ignores contents, whose names end in .chat.
 */

struct content_job {
    struct store_job job;
    const struct bb_content *content;
};

static void content_put(void *arg)
{
    struct content_job *job = arg;
    struct store *store = job->job.store;
    const struct bb_content *content = job->content;
    char path[STORE_PATH];
    const char *from = path;
    struct store_keep keep = {
        .job.store = store, .count = 1, .paths = &from, .names = &content->name};
    int fd = store_incoming(store, path);

    if (fd < 0 || write(fd, content->bytes, content->length) != (ssize_t)content->length ||
        fsync(fd))
        snprintf(keep.job.why, STORE_WHY, "device.documents cannot be written");
    else
        store->calls[STORE_KEEP](&keep);
    if (fd >= 0) {
        close(fd);
        unlink(path); /* fails if the store has moved the file */
    }
    job->job = keep.job;
}

static void content_get(void *arg)
{
    struct content_job *job = arg;
    const struct bb_content *content = job->content;
    struct store_open open = {.job.store = job->job.store,
                              .name = content->name,
                              .length = (int64_t)content->length,
                              .fd = -1};
    unsigned char digest[EVP_MAX_MD_SIZE] = {0};
    size_t length = 0;
    ssize_t got = 1;

    open.job.store->calls[STORE_OPEN](&open);
    while (open.fd >= 0 && length < content->length && got > 0) {
        got = pread(open.fd, content->bytes + length, content->length - length, (off_t)length);
        length += got > 0 ? (size_t)got : 0;
    }
    if (open.fd >= 0)
        close(open.fd);
    if (!*open.job.why && (!EVP_Digest(content->bytes, length, digest, NULL, EVP_sha256(), NULL) ||
                           !store_is_named(content->name, digest)))
        snprintf(open.job.why, STORE_WHY, "the content does not have the SHA-256 of its name");
    job->job = open.job;
}

static int content_call(struct bb_request *rq, enum store_call call, void (*run)(void *),
                        const struct bb_content *content)
{
    struct content_job job = {.content = content};

    store_call(rq, call, run, &job);
    if (*job.job.why)
        bb_log(rq, BB_ERROR, "content %s: %s", content->name, job.job.why);
    return *job.job.why ? -1 : 0;
}

static int documents_put(struct bb_request *rq, void *content)
{
    return content_call(rq, STORE_KEEP, content_put, content);
}

static int documents_get(struct bb_request *rq, void *content)
{
    return content_call(rq, STORE_OPEN, content_get, content);
}

/*
 * Files of other modules are rows of device_document with a holder. Their column `organisation` is
 * -1 - (the organization's id), so that they do not use up the quota of documents of devices.
 */
#define HELD(files) (-1 - (files)->organization)

static int documents_take(struct bb_request *rq, void *arg)
{
    struct bb_files *files = arg;
    struct device_documents *documents = bb_alloc(rq, sizeof(*documents));

    *documents = device_documents_take(rq, HELD(files));
    files->taken = documents;
    files->shown = documents->shown;
    return 0;
}

static int documents_hold(struct bb_request *rq, void *arg)
{
    const struct bb_files *files = arg;

    return documents_add(rq, files->tx, NULL, files->holder, HELD(files), files->taken);
}

static int documents_drop(struct bb_request *rq, void *arg)
{
    device_documents_drop(rq, ((const struct bb_files *)arg)->taken);
    return 0;
}

static int documents_reply(struct bb_request *rq, void *arg)
{
    const struct bb_held_file *file = arg;

    return documents_send(rq, file->id, NULL, file->holder, "Attachment");
}

/*
 * ---- the sweep ----
 *
 * The job device.sweep and the command `device sweep` delete objects that no document names and
 * that are older than device.document_grace. Such objects remain if a document was deleted, if a
 * host died before it added the row, or if the database refused the row. The job device.tidy runs
 * on each host, and deletes old incoming files that did not reach the store.
 */

struct sweep {
    struct store_list list;
    struct store_remove remove;
    const char *names[STORE_BATCH];
};

static int sweep_failed(struct bb_request *rq, const char *why)
{
    bb_log(rq, BB_WARN, "the sweep of documents stopped early: %s", why);
    return -1;
}

/* Reads a page of the list of objects. Deletes objects that no row names. Returns 0, or -1. */
static int sweep_page(struct bb_request *rq, void *arg)
{
    /* Both tables are read in one snapshot. A transaction moves each name from device_upload to
     * device_document, so a name that is in neither table will never be a document. */
    static const struct bb_sql nameless = {
        "SELECT n FROM unnest($1::text[]) n WHERE NOT EXISTS (SELECT FROM"
        " device_upload WHERE object = n) AND NOT EXISTS (SELECT FROM device_document"
        " WHERE coalesce(object, encode(sha256, 'hex')) = n)",
        BB_SQL_LONG};
    struct sweep *sweep = arg;
    struct store_list *list = &sweep->list;
    struct store_remove *remove = &sweep->remove;

    *remove = (struct store_remove){.names = sweep->names};
    list->count = 0;
    store_call(rq, STORE_LIST, NULL, list);
    if (*list->job.why)
        return sweep_failed(rq, list->job.why);
    if (!list->count)
        return 0;
    for (size_t i = 0; i < list->count; i++)
        sweep->names[i] = list->names[i];
    const struct bb_rows *rows =
        bb_query(rq, &nameless, BB_ARGS(bb_texts(sweep->names, list->count)));

    if (!rows)
        return sweep_failed(rq, "the database cannot be queried");
    for (; remove->count < bb_count(rq, rows); remove->count++)
        sweep->names[remove->count] = bb_cell(rq, rows, remove->count, 0);
    if (!remove->count)
        return 0;
    store_call(rq, STORE_REMOVE, NULL, remove);
    return *remove->job.why ? sweep_failed(rq, remove->job.why) : 0;
}

static time_t sweep_before(struct bb_request *rq)
{
    const struct device *state = rq->state;
    /* uses the earlier of this host's and PostgreSQL's time; the store may have another clock */
    time_t own = time(NULL), shared = (time_t)(bb_wall_ms(rq->host) / 1000);

    return (own < shared ? own : shared) - (time_t)state->settings->document_grace;
}

/* Deletes objects without a document, and adds their number to *removed. Returns 0, or -1. */
static int sweep_all(struct bb_request *rq, size_t *removed)
{
    /* An upload whose row was deleted is refused, even if it is still in progress. */
    static const struct bb_sql end_uploads = {
        "DELETE FROM device_upload WHERE begun_at < now() - make_interval(secs => $1::bigint)",
        BB_SQL_WRITE};
    const struct device *state = rq->state;
    struct sweep *sweep = bb_alloc(rq, sizeof(*sweep));
    int status = 0;

    if (!bb_query(rq, &end_uploads, BB_ARGS(bb_i(state->settings->document_grace))))
        return sweep_failed(rq, "the database cannot be queried");
    sweep->list.before = sweep_before(rq);
    do {
        status = bb_scratch(rq, sweep_page, sweep);
        *removed += sweep->remove.removed;
    } while (!status && sweep->list.more);
    return status;
}

void device_tidy(struct bb_request *rq)
{
    incoming_tidy(rq, DEVICE_POOL, ((const struct device *)rq->state)->settings->documents,
                  sweep_before(rq));
}

void device_sweep(struct bb_request *rq)
{
    size_t removed = 0;

    (void)sweep_all(rq, &removed); /* logs its failures */
    if (removed)
        bb_log(rq, BB_INFO, "%zu files without a document were removed", removed);
}

int device_command_sweep(struct bb_request *rq)
{
    size_t removed = 0;
    int status = sweep_all(rq, &removed);

    device_tidy(rq);
    bb_print(rq, "%zu files without a document were removed\n", removed);
    return status ? 1 : 0;
}

/* ---- the service's doctor, and `busbar device doctor` ---- */

enum {
    DOCTOR_LINES = 20, /* maximum findings printed for each page of the list */
    DOCTOR_PAGES = 100 /* pages without --all: 50,000 names, a few seconds with S3 */
};

struct doctor {
    struct store_list list;
    const struct bb_sql *missing;
    char last[STORE_NAME]; /* the last name of the list so far */
    int64_t begun_ms;
};

static int doctor_failed(struct bb_request *rq, const char *what, const char *why)
{
    bb_print(rq, "error %s: %s\n", what, why);
    return -1;
}

/*
 * Reads the next page of the list of objects. Prints the documents whose object is not on the page
 * or has another size. The list and the statement sort by the bytes of the name. Documents added
 * after begun_ms are not checked, because their files may have been stored after the page was read.
 */
static int doctor_page(struct bb_request *rq, void *arg)
{
    struct doctor *doctor = arg;
    struct store_list *list = &doctor->list;
    json_t *sizes = bb_hold(rq, json_object());
    char after[STORE_NAME];

    list->count = 0;
    store_call(rq, STORE_LIST, NULL, list);
    if (*list->job.why)
        return doctor_failed(rq, "the document store cannot be listed", list->job.why);
    for (size_t i = 0; i < list->count; i++)
        bb_set(rq, sizes, list->names[i], json_integer(list->sizes[i]));
    memcpy(after, doctor->last, sizeof(after));
    if (list->count)
        memcpy(doctor->last, list->names[list->count - 1], sizeof(doctor->last));
    const struct bb_rows *rows = bb_query(rq, doctor->missing,
                                          BB_ARGS(bb_t(bb_json(rq, sizes, NULL)), bb_t(after),
                                                  bb_t(list->more ? doctor->last : NULL),
                                                  bb_i(doctor->begun_ms), bb_i(DOCTOR_LINES)));

    if (!rows)
        return doctor_failed(rq, "the database cannot be queried", bb_sqlstate(rq));
    for (size_t i = 0; i < bb_count(rq, rows); i++)
        bb_print(rq, "error the store has %s for %s\n",
                 bb_cell(rq, rows, i, 1) ? "a file of another size" : "no file",
                 bb_cell(rq, rows, i, 0));
    if (bb_count(rq, rows) > 0 && bb_cell_int(rq, rows, 0, 2) > DOCTOR_LINES)
        bb_print(rq, "error %lld further files are missing or have another size\n",
                 (long long)bb_cell_int(rq, rows, 0, 2) - DOCTOR_LINES);
    return 0;
}

static int documents_doctor(struct bb_request *rq, void *missing)
{
    struct doctor *doctor = bb_alloc(rq, sizeof(*doctor));
    int status = 0, pages = 0;

    doctor->missing = missing;
    doctor->begun_ms = bb_wall_ms(rq->host);
    doctor->list.contents = true;
    doctor->list.before = time(NULL) + 86400; /* lists all objects, even if clocks differ */
    do
        status = bb_scratch(rq, doctor_page, doctor);
    while (!status && doctor->list.more &&
           (json_is_true(json_object_get(bb_body(rq), "all")) || ++pages < DOCTOR_PAGES));
    if (!status && doctor->list.more)
        bb_print(rq,
                 "notice the store has more than %d files: `device doctor --all` and `chat doctor"
                 " --all` check all of them\n",
                 DOCTOR_PAGES * STORE_BATCH);
    return status ? 1 : 0;
}

int device_command_doctor(struct bb_request *rq)
{
    static const struct bb_sql missing = {
        "SELECT 'document ' || f.name || ' of ' || coalesce(f.holder, 'device ' ||"
        " coalesce(d.external_id, d.id::text)), $1::jsonb ->> n, count(*) OVER ()"
        " FROM device_document f LEFT JOIN device d ON d.id = f.device"
        " CROSS JOIN LATERAL (SELECT coalesce(f.object, encode(f.sha256, 'hex')) COLLATE \"C\") o"
        " (n) WHERE n > $2::text AND ($3::text IS NULL OR n <= $3::text)"
        " AND f.created_at < to_timestamp($4::bigint / 1000.0)"
        " AND ($1::jsonb ->> n)::bigint IS DISTINCT FROM f.size ORDER BY n LIMIT $5::bigint",
        BB_SQL_LONG};

    return documents_doctor(rq, (void *)(uintptr_t)&missing);
}

const struct bb_documents device_store = {
    .size = sizeof(device_store),
    .put = documents_put,
    .get = documents_get,
    .doctor = documents_doctor,
    .take = documents_take,
    .add = documents_hold,
    .drop = documents_drop,
    .reply = documents_reply,
    .failed = device_files_failed,
};
