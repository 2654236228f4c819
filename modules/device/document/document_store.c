/* Files of a POST or PATCH: detects their types, stores them, and removes them again. */
#include <string.h>

#include "modules/device/record/device.h"
#include "modules/device/store/store.h"
#include "modules/device/value/type.h"

enum { DOCUMENTS_MAX = 100 };

struct arrival {
    struct store_keep keep;
    struct type_finder *finder;
    size_t count;  /* files; equal contents are stored once */
    int64_t bytes; /* of all files */
    const char *paths[DOCUMENTS_MAX], *sha256[DOCUMENTS_MAX], *objects[DOCUMENTS_MAX];
    const char *kept_paths[DOCUMENTS_MAX], *kept_objects[DOCUMENTS_MAX];
    const char *fresh[DOCUMENTS_MAX];
    size_t fresh_count;
    char types[DOCUMENTS_MAX][STORE_TYPE];
};

int device_store_call(struct bb_request *rq, enum device_call call, void (*run)(void *), void *arg,
                      const char *why)
{
    const struct device *state = rq->state;

    if (bb_offload(rq, state->store->pool, run, arg))
        return -1;
    bb_metric_add(rq->host, METRIC_CALLS, call, 1);
    if (*why)
        bb_metric_add(rq->host, METRIC_FAILURES, call, 1);
    return 0;
}

void device_files_failed(struct bb_host *host)
{
    bb_metric_add(host, METRIC_CALLS, CALL_KEEP, 1);
    bb_metric_add(host, METRIC_FAILURES, CALL_KEEP, 1);
}

static void find_types(void *arg)
{
    struct arrival *arrival = arg;

    for (size_t i = 0; i < arrival->count; i++)
        type_find(arrival->finder, arrival->paths[i], arrival->types[i], STORE_TYPE);
}

static struct arrival *arrival_of(struct bb_request *rq)
{
    const struct device *state = rq->state;
    struct arrival *arrival = bb_alloc(rq, sizeof(*arrival));
    const struct bb_file *file;

    for (; arrival->count < DOCUMENTS_MAX && (file = bb_file(rq, arrival->count));
         arrival->count++) {
        arrival->paths[arrival->count] = file->path;
        arrival->sha256[arrival->count] = file->sha256;
        arrival->bytes += file->length;
    }
    arrival->finder = state->finder;
    return arrival;
}

/*
 * Checks a type against device.document_types. An entry is a type or a prefix such as "image/"
 * followed by '*'.
 */
static bool allowed(const struct device *state, const char *type)
{
    size_t index;
    json_t *entry;

    if (json_array_size(state->settings->document_types) == 0)
        return true;
    json_array_foreach(state->settings->document_types, index, entry)
    {
        const char *pattern = json_string_value(entry);
        size_t length = strlen(pattern);

        if (!strcmp(pattern, type))
            return true;
        if (length > 1 && pattern[length - 1] == '*' && !strncmp(pattern, type, length - 1))
            return true;
    }
    return false;
}

static int refused_type(struct bb_request *rq, const struct arrival *arrival)
{
    for (size_t i = 0; i < arrival->count; i++)
        if (!allowed(rq->state, arrival->types[i]))
            return bb_fail(rq, 415, "%s: files of type %s are not taken", bb_file(rq, i)->part,
                           arrival->types[i]);
    return 0;
}

/* ---- names ---- */

/* Returns the index of the first file with the same content, which may be the file itself. */
static size_t first_like(const struct arrival *arrival, size_t index)
{
    size_t i = 0;

    while (i < index && strcmp(arrival->sha256[i], arrival->sha256[index]) != 0)
        i++;
    return i;
}

/* Assigns a new name to each content; returns them as a JSON array. NULL: out of memory. */
static const char *new_names(struct bb_request *rq, struct arrival *arrival)
{
    json_t *list = json_array();
    bool lost = !list;
    size_t length;

    for (size_t i = 0; i < arrival->count && !lost; i++) {
        size_t first = first_like(arrival, i);

        if (first < i) {
            arrival->objects[i] = arrival->objects[first];
            continue;
        }
        arrival->objects[i] = bb_format(rq, "%s-%s", arrival->sha256[i], bb_new_uuid(rq));
        lost = json_array_append_new(list, json_pack("{s:s, s:s}", "sha256", arrival->sha256[i],
                                                     "object", arrival->objects[i])) != 0;
    }
    const char *text = lost ? NULL : bb_json(rq, list, &length);

    json_decref(list);
    return text;
}

/* A content that documents already have keeps its existing name. */
static void take_known(struct bb_request *rq, const struct bb_rows *rows, struct arrival *arrival)
{
    for (size_t row = 0; row < bb_count(rq, rows); row++)
        for (size_t i = 0; i < arrival->count; i++)
            if (!strcmp(bb_cell(rq, rows, row, 0), arrival->sha256[i]))
                arrival->objects[i] = bb_cell(rq, rows, row, 1);
}

static void sort_names(struct bb_request *rq, const struct bb_rows *rows, struct arrival *arrival)
{
    const struct device *state = rq->state;
    size_t count = 0;

    for (size_t i = 0; i < arrival->count; i++) {
        if (first_like(arrival, i) < i)
            continue;
        arrival->kept_paths[count] = arrival->paths[i];
        arrival->kept_objects[count++] = arrival->objects[i];
        arrival->fresh[arrival->fresh_count++] = arrival->objects[i];
        for (size_t row = 0; row < bb_count(rq, rows); row++)
            if (!strcmp(bb_cell(rq, rows, row, 1), arrival->objects[i]))
                arrival->fresh_count--;
    }
    arrival->keep = (struct store_keep){.store = state->store,
                                        .count = count,
                                        .paths = arrival->kept_paths,
                                        .names = arrival->kept_objects};
}

/*
 * Records in the database the names that are about to be stored. Returns 0, or the status of the
 * response sent.
 */
static int begin_uploads(struct bb_request *rq, struct arrival *arrival)
{
    static const struct bb_sql begin = {
        "WITH r AS (SELECT * FROM jsonb_to_recordset($1::jsonb) AS (sha256 text, object text)),"
        " known AS (SELECT DISTINCT ON (r.sha256) r.sha256, coalesce(d.object, r.sha256) AS object"
        " FROM r JOIN device_document d ON d.sha256 = decode(r.sha256, 'hex')),"
        " begun AS (INSERT INTO device_upload (object, begun_at) SELECT object, now() FROM r"
        " WHERE NOT EXISTS (SELECT FROM known k WHERE k.sha256 = r.sha256))"
        " SELECT sha256, object FROM known",
        BB_SQL_WRITE};
    const char *names = new_names(rq, arrival);

    if (!names)
        return bb_no_memory(rq);
    const struct bb_rows *rows = bb_query(rq, &begin, BB_ARGS(bb_t(names)));

    if (!rows)
        return bb_failed(rq);
    take_known(rq, rows, arrival);
    sort_names(rq, rows, arrival);
    return 0;
}

/* ---- adding documents ---- */

/*
 * The rows as the API shows them, plus `sha256` and `object`. The caller owns them; NULL: out of
 * memory.
 */
static json_t *rows_json(struct bb_request *rq, const struct arrival *arrival)
{
    json_t *list = json_array();
    const char *now = bb_time_text(rq, bb_wall_ms(rq->host));

    for (size_t i = 0; i < arrival->count; i++) {
        const struct bb_file *file = bb_file(rq, i);
        json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:s}", "id", bb_new_uuid(rq),
                                "field", file->part, "name", file->name, "type", arrival->types[i],
                                "size", (json_int_t)file->length, "createdAt", now, "sha256",
                                file->sha256, "object", arrival->objects[i]);

        if (json_array_append_new(list, row)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int take_rows(struct bb_request *rq, const struct arrival *arrival,
                     struct device_documents *documents)
{
    json_t *list = rows_json(rq, arrival);
    size_t index, length;
    json_t *row;

    if (!list)
        return bb_no_memory(rq);
    documents->rows = bb_json(rq, list, &length);
    json_array_foreach(list, index, row)
    {
        json_object_del(row, "sha256");
        json_object_del(row, "object");
    }
    documents->shown = bb_json(rq, list, &length);
    json_decref(list);
    return 0;
}

static int put(struct bb_request *rq, struct arrival *arrival)
{
    struct store_keep *keep = &arrival->keep;

    if (device_store_call(rq, CALL_KEEP, store_keep, keep, keep->why))
        return bb_failed(rq);
    if (!*keep->why)
        return 0;
    bb_log(rq, BB_ERROR, "documents cannot be stored: %s", keep->why);
    return bb_fail(rq, 503, "Documents cannot be stored now");
}

int device_documents_take(struct bb_request *rq, int64_t organization,
                          struct device_documents *documents)
{
    *documents = (struct device_documents){.shown = "[]"};
    if (!bb_file(rq, 0))
        return 0;
    struct arrival *arrival = arrival_of(rq);

    if (bb_offload(rq, DEVICE_POOL, find_types, arrival))
        return bb_failed(rq);
    int refused = refused_type(rq, arrival);

    if (!refused)
        refused = device_documents_fit(rq, organization, arrival->bytes);
    if (!refused)
        refused = begin_uploads(rq, arrival);
    if (refused)
        return refused;
    documents->uploads = arrival->fresh;
    documents->begun = arrival->fresh_count;
    refused = put(rq, arrival);
    documents->until_ms = arrival->keep.until_ms;
    if (!refused)
        refused = take_rows(rq, arrival, documents);
    if (refused)
        device_documents_drop(rq, documents);
    return refused;
}

/* ---- dropping files ---- */

static const char *names_json(struct bb_request *rq, const struct device_documents *documents)
{
    json_t *list = json_array();
    bool lost = !list;
    size_t length;

    for (size_t i = 0; i < documents->begun && !lost; i++)
        lost = json_array_append_new(list, json_string(documents->uploads[i])) != 0;
    const char *text = lost ? NULL : bb_json(rq, list, &length);

    json_decref(list);
    return text;
}

/*
 * The row of an upload exists until the transaction that adds its documents commits. Deleting the
 * row makes sure that this transaction never commits, so an uncertain commit needs no check here.
 * If this fails, the sweep cleans up.
 */
void device_documents_drop(struct bb_request *rq, const struct device_documents *documents)
{
    static const struct bb_sql end = {"DELETE FROM device_upload WHERE object IN"
                                      " (SELECT jsonb_array_elements_text($1::jsonb))"
                                      " RETURNING object",
                                      BB_SQL_WRITE};
    const struct device *state = rq->state;
    const char *names = documents->begun ? names_json(rq, documents) : NULL;
    const struct bb_rows *rows = names ? bb_query(rq, &end, BB_ARGS(bb_t(names))) : NULL;

    if (!rows)
        return;
    size_t count = bb_count(rq, rows);
    const char **list = bb_alloc(rq, (count + 1) * sizeof(*list));
    struct store_remove remove = {
        .store = state->store, .count = count, .names = list, .until_ms = documents->until_ms};

    for (size_t i = 0; i < count; i++)
        list[i] = bb_cell(rq, rows, i, 0);
    if (device_store_call(rq, CALL_REMOVE, store_remove, &remove, remove.why) || *remove.why)
        bb_log(rq, BB_WARN, "the files of a refused request are deleted by the next sweep");
}
