/*
 * Files of a POST or PATCH: detects their types, stores them, adds their rows, and removes them
 * again. DELETE of a document.
 */
#include <inttypes.h>
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

/* ---- the quota ---- */

/* $1 organization, $2 additional bytes, $3 the quota, $4 the error message */
static const struct bb_sql fit = {
    "SELECT busbar_require(coalesce((SELECT bytes FROM device_usage WHERE organisation ="
    " $1::bigint), 0) + $2::bigint <= $3::bigint, 409, $4)",
    0};

static const char *over_quota(struct bb_request *rq)
{
    const struct device *state = rq->state;

    return bb_format(rq, "The organization may have %" PRId64 " bytes of documents at most",
                     state->settings->documents_per_organization);
}

/*
 * Checked before anything is stored. The transaction checks again and sees what parallel requests
 * have added.
 */
static int check_quota(struct bb_request *rq, int64_t organization, int64_t bytes)
{
    const struct device *state = rq->state;

    return bb_query(rq, &fit,
                    BB_ARGS(bb_i(organization), bb_i(bytes),
                            bb_i(state->settings->documents_per_organization),
                            bb_t(over_quota(rq))))
               ? 0
               : bb_failed(rq);
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
    json_t *list = bb_json_hold(rq, json_array());

    for (size_t i = 0; i < arrival->count; i++) {
        size_t first = first_like(arrival, i);

        if (first < i) {
            arrival->objects[i] = arrival->objects[first];
            continue;
        }
        arrival->objects[i] = bb_format(rq, "%s-%s", arrival->sha256[i], bb_new_uuid(rq));
        if (json_array_append_new(list, json_pack("{s:s, s:s}", "sha256", arrival->sha256[i],
                                                  "object", arrival->objects[i])))
            return NULL;
    }
    return bb_json(rq, list, NULL);
}

/*
 * Records in the database the names that are about to be stored. A content that documents already
 * have keeps its existing name. Returns 0, or the status of the response sent.
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
    const struct device *state = rq->state;
    const char *names = new_names(rq, arrival);
    size_t count = 0;

    if (!names)
        return bb_no_memory(rq);
    const struct bb_rows *rows = bb_query(rq, &begin, BB_ARGS(bb_t(names)));

    if (!rows)
        return bb_failed(rq);
    for (size_t row = 0; row < bb_count(rq, rows); row++)
        for (size_t i = 0; i < arrival->count; i++)
            if (!strcmp(bb_cell(rq, rows, row, 0), arrival->sha256[i]))
                arrival->objects[i] = bb_cell(rq, rows, row, 1);
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
    return 0;
}

/* ---- adding documents ---- */

/* Writes the rows as the API shows them, and the same plus `sha256` and `object`. */
static int take_rows(struct bb_request *rq, const struct arrival *arrival,
                     struct device_documents *documents)
{
    json_t *list = bb_json_hold(rq, json_array()), *row;
    const char *now = bb_time_text(rq, bb_wall_ms(rq->host));
    size_t index, length;

    for (size_t i = 0; i < arrival->count; i++) {
        const struct bb_file *file = bb_file(rq, i);

        row = json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:s}", "id", bb_new_uuid(rq), "field",
                        file->part, "name", file->name, "type", arrival->types[i], "size",
                        (json_int_t)file->length, "createdAt", now, "sha256", file->sha256,
                        "object", arrival->objects[i]);
        if (json_array_append_new(list, row))
            return bb_no_memory(rq);
    }
    documents->rows = bb_json(rq, list, &length);
    json_array_foreach(list, index, row)
    {
        json_object_del(row, "sha256");
        json_object_del(row, "object");
    }
    documents->shown = bb_json(rq, list, &length);
    return 0;
}

int device_documents_take(struct bb_request *rq, int64_t organization,
                          struct device_documents *documents)
{
    const struct device *state = rq->state;
    const struct bb_file *file = bb_file(rq, 0);

    *documents = (struct device_documents){.shown = "[]"};
    if (!file)
        return 0;
    struct arrival *arrival = bb_alloc(rq, sizeof(*arrival));
    struct store_keep *keep = &arrival->keep;
    int refused = 0;

    for (; file && arrival->count < DOCUMENTS_MAX; file = bb_file(rq, ++arrival->count)) {
        arrival->paths[arrival->count] = file->path;
        arrival->sha256[arrival->count] = file->sha256;
        arrival->bytes += file->length;
    }
    arrival->finder = state->finder;
    if (bb_offload(rq, DEVICE_POOL, find_types, arrival))
        return bb_failed(rq);
    for (size_t i = 0; i < arrival->count; i++)
        if (!allowed(state, arrival->types[i]))
            return bb_fail(rq, 415, "%s: files of type %s are not taken", bb_file(rq, i)->part,
                           arrival->types[i]);
    refused = check_quota(rq, organization, arrival->bytes);
    if (!refused)
        refused = begin_uploads(rq, arrival);
    if (refused)
        return refused;
    documents->uploads = arrival->fresh;
    documents->begun = arrival->fresh_count;
    if (device_store_call(rq, CALL_KEEP, store_keep, keep, keep->why)) {
        refused = bb_failed(rq);
    } else if (*keep->why) {
        bb_log(rq, BB_ERROR, "documents cannot be stored: %s", keep->why);
        refused = bb_fail(rq, 503, "Documents cannot be stored now");
    }
    documents->until_ms = keep->until_ms;
    if (!refused)
        refused = take_rows(rq, arrival, documents);
    if (refused)
        device_documents_drop(rq, documents);
    return refused;
}

/* The files are documents now, so none of them may be dropped. */
static void added(struct bb_request *rq, struct bb_tx *tx, void *documents)
{
    (void)rq, (void)tx;
    ((struct device_documents *)documents)->begun = 0;
}

/*
 * Deletes the uploads' rows too. If one is gone, its content may be gone, so the transaction is
 * refused.
 */
int device_documents_add(struct bb_request *rq, struct bb_tx *tx,
                         const struct device_record *device, struct device_documents *documents)
{
    static const struct bb_sql add = {
        "WITH r AS (SELECT r.*, ordinality AS place FROM ROWS FROM (jsonb_to_recordset($2::jsonb)"
        " AS (id uuid, field text, name text, type text, size bigint, sha256 text, object text,"
        " \"createdAt\" timestamptz)) WITH ORDINALITY AS r), ins AS ("
        "INSERT INTO device_document (id, device, organisation, field, name, type, size, sha256,"
        " object, created_at, place) SELECT id, $1::bigint, $4::bigint, field, name, type, size,"
        " decode(sha256, 'hex'), object, \"createdAt\", place FROM r), ended AS ("
        "DELETE FROM device_upload WHERE object IN (SELECT object FROM r) RETURNING 1)"
        " SELECT busbar_require(NOT EXISTS (SELECT FROM (SELECT field FROM r UNION ALL"
        " SELECT field FROM device_document WHERE device = $1::bigint) f GROUP BY field"
        " HAVING count(*) > 10), 409, 'A field has 10 documents at most'),"
        " busbar_require((SELECT count(*) FROM ended) = $3::bigint, 503,"
        " 'The documents took too long')",
        BB_SQL_WRITE};

    const struct device *state = rq->state;

    if (!documents->rows)
        return 0;
    if (bb_add(rq, tx, &add,
               BB_ARGS(bb_i(device->id), bb_t(documents->rows), bb_i((int64_t)documents->begun),
                       bb_i(device->organization))) < 0 ||
        bb_add(rq, tx, &fit,
               BB_ARGS(bb_i(device->organization), bb_i(0),
                       bb_i(state->settings->documents_per_organization), bb_t(over_quota(rq)))) <
            0)
        return -1;
    bb_after(rq, tx, added, documents);
    return 0;
}

/* ---- dropping files ---- */

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
    json_t *json = documents->begun ? bb_json_hold(rq, json_array()) : NULL;
    bool lost = !json;
    size_t length;

    for (size_t i = 0; i < documents->begun && !lost; i++)
        lost = json_array_append_new(json, json_string(documents->uploads[i])) != 0;
    const char *names = lost ? NULL : bb_json(rq, json, &length);
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

/* ---- DELETE ---- */

struct removal {
    int64_t device;
    const char *document;
};

/* The content stays in the store until the sweep finds that no document names it. */
static int remove_one(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql lock = {"SELECT FROM device WHERE id = $1::bigint FOR UPDATE", 0};
    static const struct bb_sql remove = {
        "WITH gone AS (DELETE FROM device_document WHERE id = $1::uuid AND device = $2::bigint"
        " RETURNING device) UPDATE device d SET updated_at = greatest(now(), d.updated_at)"
        " FROM gone WHERE d.id = gone.device RETURNING " DEVICE_FACTS,
        BB_SQL_WRITE};
    const struct removal *removal = arg;
    const struct bb_rows *rows = bb_tx_query(rq, tx, &lock, BB_ARGS(bb_i(removal->device)));

    if (rows)
        rows =
            bb_tx_query(rq, tx, &remove, BB_ARGS(bb_t(removal->document), bb_i(removal->device)));
    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "Document not found");
    struct device_record record = device_facts_of(rq, rows, 0);
    const struct device_values unchanged = {.text = {NULL}};

    if (device_emit_updated(rq, tx, &record, &unchanged, true))
        return bb_failed(rq);
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

int device_document_delete(struct bb_request *rq)
{
    struct device_record record;
    int refused = device_find_facts(rq, bb_segment(rq, "externalId"),
                                    bb_arg_int(rq, "organizationId", 0), &record);

    if (refused)
        return refused;
    struct removal removal = {record.id, bb_segment(rq, "documentId")};

    return bb_transaction(rq, remove_one, &removal);
}
