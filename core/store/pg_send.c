/* Sends batches to the server, and tracks the prepared statements of each connection. */
#include <stdlib.h>

#include "core/lib/text.h"
#include "core/store/pg_pool.h"

enum { NAME_SIZE = 24 };

/* Returns a statement's name on the server: its address, which is unique. */
static void statement_name(const struct bb_sql *sql, char name[NAME_SIZE])
{
    uintptr_t rest = (uintptr_t)sql;
    char *at = name;

    for (*at++ = 's'; rest; rest >>= 4)
        *at++ = "0123456789abcdef"[rest & 15];
    *at = '\0';
}

static size_t prepared_slot(const struct pg_conn *conn, const struct bb_sql *sql)
{
    size_t mask = conn->prepared_room - 1;
    size_t slot = (size_t)((uintptr_t)sql >> 4) * 0x9e3779b1U & mask;

    while (conn->prepared[slot] && conn->prepared[slot] != sql)
        slot = (slot + 1) & mask;
    return slot;
}

static int prepared_grow(struct pg_conn *conn)
{
    const struct bb_sql **old = conn->prepared;
    size_t old_room = conn->prepared_room;
    const struct bb_sql **bigger = calloc(old_room * 2, sizeof *bigger);

    if (!bigger)
        return -1;
    conn->prepared = bigger;
    conn->prepared_room = old_room * 2;
    for (size_t i = 0; i < old_room; i++) {
        if (old[i])
            conn->prepared[prepared_slot(conn, old[i])] = old[i];
    }
    free(old);
    return 0;
}

static int prepared_add(struct pg_conn *conn, const struct bb_sql *sql)
{
    if (conn->prepared_count * 2 >= conn->prepared_room && prepared_grow(conn))
        return -1;
    conn->prepared[prepared_slot(conn, sql)] = sql;
    conn->prepared_count++;
    return 0;
}

/* Entries after it in the hash table move up if they are not at their own position. */
void pg_prepared_forget(struct pg_conn *conn, const struct bb_sql *sql)
{
    size_t mask = conn->prepared_room - 1, slot = prepared_slot(conn, sql);

    if (!conn->prepared[slot])
        return;
    conn->prepared[slot] = NULL;
    conn->prepared_count--;
    while (conn->prepared[slot = (slot + 1) & mask]) {
        const struct bb_sql *other = conn->prepared[slot];

        conn->prepared[slot] = NULL;
        conn->prepared[prepared_slot(conn, other)] = other;
    }
}

/* Prepares a statement that is new on this connection. */
static int send_prepare(struct pg_conn *conn, struct pg_batch *batch, struct pg_request *entry,
                        struct pg_op *op, const struct bb_sql *sql)
{
    char name[NAME_SIZE];

    if (conn->prepared[prepared_slot(conn, sql)])
        return 0;
    statement_name(sql, name);
    if (prepared_add(conn, sql) || !PQsendPrepare(conn->pg, name, sql->text, 0, NULL))
        return -1;
    return pg_expect_add(conn, (struct pg_expect){PG_EXPECT_PREPARE, sql, batch, entry, op});
}

static int send_op(struct pg_conn *conn, struct pg_batch *batch, struct pg_request *entry,
                   struct pg_op *op)
{
    const struct bb_sql *sql = op->sql;
    const char *const *values = op->values;
    const int *lengths = op->lengths, *formats = op->formats;
    char name[NAME_SIZE];

    pg_op_clear(op);
    if (entry->members) {
        sql = pg_many(sql);
        values = pg_merge_values(entry, op);
        lengths = formats = NULL; /* all are text */
        if (!values)
            return -1;
    }
    if (send_prepare(conn, batch, entry, op, sql))
        return -1;
    statement_name(sql, name);
    if (!PQsendQueryPrepared(conn->pg, name, op->count, values, lengths, formats, 0))
        return -1;
    return pg_expect_add(conn, (struct pg_expect){PG_EXPECT_ROWS, sql, batch, entry, op});
}

static int send_entries(struct pg_conn *conn, struct pg_batch *batch)
{
    int64_t sent_us = clock_mono_us();

    pg_merge(conn->pool, batch->entries);
    for (struct pg_request *entry = batch->entries; entry; entry = entry->next) {
        entry->sent = true;
        entry->sent_us = sent_us;
        entry->tries++;
        for (struct pg_op *op = entry->follows ? NULL : entry->ops; op; op = op->next) {
            if (send_op(conn, batch, entry, op))
                return -1;
        }
    }
    if (!PQpipelineSync(conn->pg))
        return -1;
    return pg_expect_add(conn, (struct pg_expect){.kind = PG_EXPECT_SYNC, .batch = batch});
}

static void fail_list(struct pg_request *list, enum failure_kind kind)
{
    while (list) {
        struct pg_request *next = list->next;

        pg_request_fail(list, kind);
        list = next;
    }
}

int pg_batch_send(struct pg_conn *conn, struct pg_request *entries, size_t count)
{
    struct pg_batch *batch = calloc(1, sizeof *batch);

    if (!batch) {
        fail_list(entries, FAILED_MEMORY);
        return 0;
    }
    batch->entries = entries;
    batch->count = count;
    batch->sent_ms = conn->pool->pg->loop->now_ms;
    if (!conn->batches++)
        conn->oldest_ms = batch->sent_ms;
    if (send_entries(conn, batch)) {
        /* Without its Sync nothing of it can be committed; pg_results_lost() frees it. */
        if (pg_expect_add(conn, (struct pg_expect){.kind = PG_EXPECT_SYNC, .batch = batch})) {
            fail_list(entries, FAILED_MEMORY);
            free(batch);
        }
        return -1;
    }
    pg_conn_flush_output(conn);
    return 0;
}
