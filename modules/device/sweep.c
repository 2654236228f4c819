/*
 * The job device.sweep and the command `device sweep`: delete objects that no document names and
 * that are older than device.document_grace. They exist because a host died before adding the row,
 * or because the database refused the row. The job device.tidy deletes, on each host, old incoming
 * files that did not reach the store.
 */
#include <stdio.h>
#include <string.h>

#include "modules/common/incoming.h"
#include "modules/device/record/device.h"
#include "modules/device/store/store.h"

/* After this the documents of these uploads are refused. */
static const struct bb_sql end_uploads = {
    "DELETE FROM device_upload WHERE begun_at < now() - make_interval(secs => $1::bigint)",
    BB_SQL_WRITE,
};

/*
 * One statement, so its snapshot is consistent: a name is still an upload, or is a document, or
 * will never be one.
 */
static const struct bb_sql nameless = {
    "SELECT n FROM jsonb_array_elements_text($1::jsonb) n WHERE NOT EXISTS (SELECT FROM"
    " device_upload WHERE object = n) AND NOT EXISTS (SELECT FROM device_document"
    " WHERE coalesce(object, encode(sha256, 'hex')) = n)",
    BB_SQL_LONG,
};

struct sweep {
    struct store_list list;
    struct store_remove remove;
    const char *names[STORE_BATCH];
    char array[STORE_BATCH * (STORE_NAME + 2) + 3];
};

/* Writes the names as a JSON array in place, because a sweep may see millions. */
static const char *array_of(struct sweep *sweep)
{
    char *at = sweep->array;

    *at++ = '[';
    for (size_t i = 0; i < sweep->list.count; i++)
        at += sprintf(at, "%s\"%s\"", i ? "," : "", sweep->list.names[i]);
    memcpy(at, "]", 2);
    return sweep->array;
}

static int failed(struct bb_request *rq, const char *why)
{
    bb_log(rq, BB_WARN, "the sweep of documents stopped early: %s", why);
    return -1;
}

/* Deletes the objects of the next page of the list that no row names. Returns 0, or -1. */
static int sweep_page(struct bb_request *rq, void *arg)
{
    struct sweep *sweep = arg;
    struct store_remove *remove = &sweep->remove;

    remove->removed = 0;
    if (device_store_call(rq, CALL_LIST, store_list, &sweep->list, sweep->list.why))
        return failed(rq, "the store is busy");
    if (*sweep->list.why)
        return failed(rq, sweep->list.why);
    if (!sweep->list.count)
        return 0;
    const struct bb_rows *rows = bb_query(rq, &nameless, BB_ARGS(bb_t(array_of(sweep))));

    if (!rows)
        return failed(rq, "the database cannot be queried");
    *remove = (struct store_remove){.store = sweep->list.store, .names = sweep->names};
    for (; remove->count < bb_count(rq, rows); remove->count++)
        sweep->names[remove->count] = bb_cell(rq, rows, remove->count, 0);
    if (!remove->count)
        return 0;
    if (device_store_call(rq, CALL_REMOVE, store_remove, remove, remove->why))
        return failed(rq, "the store is busy");
    return *remove->why ? failed(rq, remove->why) : 0;
}

static time_t before(struct bb_request *rq)
{
    const struct device *state = rq->state;
    /* local files have times of this host's clock, objects in a bucket may not: the earlier one */
    time_t own = time(NULL), shared = (time_t)(bb_wall_ms(rq->host) / 1000);

    return (own < shared ? own : shared) - (time_t)state->settings->document_grace;
}

/* Returns 0 with the number of deleted objects, or -1. */
static int sweep_all(struct bb_request *rq, size_t *removed)
{
    const struct device *state = rq->state;
    struct sweep *sweep = bb_alloc(rq, sizeof(*sweep));
    int status = 0;

    if (!bb_query(rq, &end_uploads, BB_ARGS(bb_i(state->settings->document_grace))))
        return failed(rq, "the database cannot be queried");
    sweep->list.store = state->store;
    sweep->list.before = before(rq);
    do {
        status = bb_scratch(rq, sweep_page, sweep);
        *removed += sweep->remove.removed;
    } while (!status && sweep->list.more);
    return status;
}

static int tidy(struct bb_request *rq, size_t *removed)
{
    const struct device *state = rq->state;
    struct incoming_sweep sweep = {.directory = state->settings->documents, .before = before(rq)};

    if (bb_offload(rq, DEVICE_POOL, incoming_sweep, &sweep))
        return -1;
    *removed += sweep.removed;
    return 0;
}

void device_tidy(struct bb_request *rq)
{
    size_t removed = 0;

    (void)tidy(rq, &removed); /* the next run does it */
    if (removed)
        bb_log(rq, BB_INFO, "%zu incomplete files were removed", removed);
}

void device_sweep(struct bb_request *rq)
{
    size_t removed = 0;

    (void)sweep_all(rq, &removed); /* it has logged the reason */
    if (removed)
        bb_log(rq, BB_INFO, "%zu files without a document were removed", removed);
}

int device_command_sweep(struct bb_request *rq)
{
    size_t removed = 0;
    int status = tidy(rq, &removed) | sweep_all(rq, &removed);

    bb_print(rq, "%zu files removed\n", removed);
    return status ? 1 : 0;
}
