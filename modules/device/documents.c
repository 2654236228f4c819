/* Documents of a POST or PATCH: their types, their place in the store, their rows. */
#include <string.h>

#include "device.h"
#include "store.h"
#include "type.h"

enum { DOCUMENTS_MAX = 100 };

struct arrival {
    struct store_keep keep;
    struct type_finder *finder;
    const char *paths[DOCUMENTS_MAX], *names[DOCUMENTS_MAX];
    char types[DOCUMENTS_MAX][STORE_TYPE];
};

static void find_types(void *arg)
{
    struct arrival *arrival = arg;

    for (size_t i = 0; i < arrival->keep.count; i++)
        type_find(arrival->finder, arrival->paths[i], arrival->types[i], STORE_TYPE);
}

static struct arrival *arrival_of(struct bb_request *rq)
{
    const struct device *state = rq->state;
    struct arrival *arrival = bb_alloc(rq, sizeof(*arrival));
    const struct bb_file *file;
    size_t count = 0;

    for (; count < DOCUMENTS_MAX && (file = bb_file(rq, count)); count++) {
        arrival->paths[count] = file->path;
        arrival->names[count] = file->sha256;
    }
    arrival->finder = state->finder;
    arrival->keep = (struct store_keep){.directory = state->documents,
                                        .count = count,
                                        .paths = arrival->paths,
                                        .names = arrival->names};
    return arrival;
}

/* device.document_types: exactly, or as "image/" followed by '*'. */
static bool allowed(const struct device *state, const char *type)
{
    size_t index;
    json_t *entry;

    if (json_array_size(state->types) == 0)
        return true;
    json_array_foreach(state->types, index, entry)
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
    for (size_t i = 0; i < arrival->keep.count; i++)
        if (!allowed(rq->state, arrival->types[i]))
            return bb_fail(rq, 415, "%s: files of type %s are not taken", bb_file(rq, i)->part,
                           arrival->types[i]);
    return 0;
}

/* The rows, as the API shows them and with `sha256`; given, NULL without memory. */
static json_t *rows_json(struct bb_request *rq, const struct arrival *arrival)
{
    json_t *list = json_array();
    const char *now = bb_time_text(rq, bb_wall_ms(rq->host));

    for (size_t i = 0; i < arrival->keep.count; i++) {
        const struct bb_file *file = bb_file(rq, i);
        json_t *row =
            json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s}", "id", bb_new_uuid(rq), "field",
                      file->part, "name", file->name, "type", arrival->types[i], "size",
                      (json_int_t)file->length, "createdAt", now, "sha256", file->sha256);

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
        return device_no_memory(rq);
    documents->rows = bb_json(rq, list, &length);
    json_array_foreach(list, index, row)
    {
        json_object_del(row, "sha256");
    }
    documents->shown = bb_json(rq, list, &length);
    json_decref(list);
    return 0;
}

int device_documents_take(struct bb_request *rq, struct device_documents *documents)
{
    *documents = (struct device_documents){.shown = "[]"};
    if (!bb_file(rq, 0))
        return 0;
    struct arrival *arrival = arrival_of(rq);

    if (bb_offload(rq, DEVICE_POOL, find_types, arrival))
        return bb_failed(rq);
    int refused = refused_type(rq, arrival);

    if (refused)
        return refused;
    if (bb_offload(rq, DEVICE_POOL, store_keep, &arrival->keep))
        return bb_failed(rq);
    if (arrival->keep.error) {
        bb_log(rq, BB_ERROR, "documents cannot be stored in %s: %s", arrival->keep.directory,
               strerror(arrival->keep.error));
        return bb_fail(rq, 503, "Documents cannot be stored now");
    }
    return take_rows(rq, arrival, documents);
}

int device_documents_add(struct bb_request *rq, struct bb_tx *tx, int64_t device,
                         const struct device_documents *documents)
{
    static const struct bb_sql add = {
        "WITH r AS (SELECT r.*, ordinality AS place FROM ROWS FROM (jsonb_to_recordset($2::jsonb)"
        " AS (id uuid, field text, name text, type text, size bigint, sha256 text,"
        " \"createdAt\" timestamptz)) WITH ORDINALITY AS r), ins AS ("
        "INSERT INTO device_document (id, device, field, name, type, size, sha256, created_at,"
        " place) SELECT id, $1::bigint, field, name, type, size, decode(sha256, 'hex'),"
        " \"createdAt\", place FROM r)"
        " SELECT busbar_require(NOT EXISTS (SELECT FROM (SELECT field FROM r UNION ALL"
        " SELECT field FROM device_document WHERE device = $1::bigint) f GROUP BY field"
        " HAVING count(*) > 10), 409, 'A field has 10 documents at most')",
        BB_SQL_WRITE};

    if (!documents->rows)
        return 0;
    return bb_add(rq, tx, &add, BB_ARGS(bb_i(device), bb_t(documents->rows))) < 0 ? -1 : 0;
}
