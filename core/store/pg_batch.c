/*
 * Batches: at the end of a loop iteration, the entries that wait for a connection are sent to
 * PostgreSQL as one pipeline with one Sync. This file decides what goes into a batch and when;
 * pg_send.c sends it, pg_result.c reads the results.
 */
#include "core/lib/loop.h"
#include "core/store/pg_pool.h"

/* Locks are taken in the order of the keys, so that batches of several hosts cannot deadlock. */
static struct pg_request *insert_by_key(struct pg_request *list, struct pg_request *entry)
{
    struct pg_request **at = &list;

    while (*at && (*at)->key <= entry->key)
        at = &(*at)->next;
    entry->next = *at;
    *at = entry;
    return list;
}

/*
 * Makes one batch of the entries that wait for the connection, so that it costs one round trip: at
 * most batch_max entries, selected by pg_conn_next(). Units are ordered by key.
 */
static struct pg_request *make_batch(struct pg_conn *conn, size_t *count)
{
    bool by_key = conn->pool->kind == PG_UNIT;
    struct pg_request *list = NULL, **end = &list, *entry;
    bool alone = false;

    *count = 0;
    while (!alone && *count < conn->pool->batch_max && (entry = pg_conn_next(conn, *count))) {
        if (!entry->rq) {
            pg_request_free(entry);
            continue;
        }
        alone = entry->alone;
        if (by_key) {
            list = insert_by_key(list, entry);
        } else {
            *end = entry;
            end = &entry->next;
        }
        ++*count;
    }
    return list;
}

static bool has_waiting(const struct pg_conn *conn)
{
    return conn->waiting_count || (conn->pool->kind == PG_LONG && conn->pool->queued);
}

static void conn_flush(struct pg_conn *conn)
{
    /* a checked out connection is used to the end of its transaction */
    while (conn->state == PG_READY && has_waiting(conn) && (!conn->recycle || conn->checked_out) &&
           conn->batches < conn->pool->depth) {
        size_t count;
        struct pg_request *entries = make_batch(conn, &count);

        if (!entries)
            return;
        if (pg_batch_send(conn, entries, count)) {
            pg_conn_lost(conn, "sending failed");
            return;
        }
    }
    if (conn->recycle && !conn->batches && conn->state == PG_READY && !conn->checked_out)
        pg_conn_lost(conn, "prepared statements are stale");
}

static void pg_pool_flush(struct pg_pool *pool)
{
    for (unsigned i = 0; i < pool->count; i++)
        conn_flush(&pool->conns[i]);
}

void pg_flush(struct pg *pg)
{
    for (int kind = 0; kind < PG_POOLS; kind++)
        pg_pool_flush(&pg->pools[kind]);
}
