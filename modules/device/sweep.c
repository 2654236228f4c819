/*
 * The job device.sweep, and the command `device sweep`: takes away files that have no row, because
 * a host died before the row or the database refused it. Only what is older than
 * device.document_grace, which is longer than any request lasts.
 */
#include <string.h>

#include "device.h"
#include "store.h"

static const struct bb_sql known = {
    "SELECT encode(sha256, 'hex') FROM device_document WHERE sha256 IN"
    " (SELECT decode(n, 'hex') FROM jsonb_array_elements_text($1::jsonb) n) GROUP BY sha256",
    BB_SQL_LONG,
};

struct sweep {
    struct store_list list;
    struct store_remove remove;
};

static const char *names_of(struct bb_request *rq, const struct store_list *list)
{
    json_t *names = json_array();
    size_t length;

    for (size_t i = 0; i < list->count; i++)
        if (json_array_append_new(names, json_string(list->names[i]))) {
            json_decref(names);
            return NULL;
        }
    const char *text = names ? bb_json(rq, names, &length) : NULL;

    json_decref(names);
    return text;
}

static void mark_known(struct bb_request *rq, const struct bb_rows *rows, struct sweep *sweep)
{
    for (size_t row = 0; row < bb_count(rq, rows); row++)
        for (size_t i = 0; i < sweep->list.count; i++)
            if (!strcmp(bb_cell(rq, rows, row, 0), sweep->list.names[i]))
                sweep->remove.keep[i] = true;
}

/* 0, or -1: the next run goes on. */
static int sweep_shard(struct bb_request *rq, struct sweep *sweep, size_t *removed)
{
    if (bb_offload(rq, DEVICE_POOL, store_list, &sweep->list))
        return -1;
    if (!sweep->list.count)
        return 0;
    const char *names = names_of(rq, &sweep->list);
    const struct bb_rows *rows = names ? bb_query(rq, &known, BB_ARGS(bb_t(names))) : NULL;

    if (!rows)
        return -1;
    memset(sweep->remove.keep, 0, sizeof(sweep->remove.keep));
    mark_known(rq, rows, sweep);
    if (bb_offload(rq, DEVICE_POOL, store_remove, &sweep->remove))
        return -1;
    *removed += sweep->remove.removed;
    return 0;
}

/* 0 with how many files were removed, or -1. */
static int sweep_all(struct bb_request *rq, size_t *removed)
{
    const struct device *state = rq->state;
    struct sweep *sweep = bb_alloc(rq, sizeof(*sweep));
    time_t before = (time_t)(bb_wall_ms(rq->host) / 1000 - state->grace_s);
    struct store_tidy tidy = {.directory = state->documents, .before = before};

    *removed = 0;
    if (bb_offload(rq, DEVICE_POOL, store_tidy, &tidy))
        return -1;
    *removed = tidy.removed;
    sweep->list.directory = state->documents;
    sweep->list.before = before;
    sweep->remove.list = &sweep->list;
    for (unsigned shard = 0; shard < STORE_SHARDS; shard++) {
        sweep->list.shard = shard;
        if (sweep_shard(rq, sweep, removed))
            return -1;
    }
    return 0;
}

void device_sweep(struct bb_request *rq)
{
    size_t removed;

    if (sweep_all(rq, &removed))
        bb_log(rq, BB_WARN, "the documents were not swept to the end");
    if (removed)
        bb_log(rq, BB_INFO, "%zu files without a document were removed", removed);
}

int device_command_sweep(struct bb_request *rq)
{
    size_t removed;
    int failed = sweep_all(rq, &removed);

    bb_print(rq, "%zu files removed\n", removed);
    return failed ? 1 : 0;
}
