/*
 * Requests of a batch with the same keyed statements (struct bb_keyed) share one execution of each,
 * because starting and ending the executor, and two messages each way, take most of the time of a
 * read by key. Such requests are called the members of a shared execution.
 */
#include <stdlib.h>
#include <string.h>

#include "core/lib/log.h"
#include "core/lib/sqlstate.h"
#include "core/lib/text.h"
#include "core/store/pg_pool.h"

enum { MEMBERS_MAX = 64, LEAST = 2 /* fewer members save nothing */ };

const struct bb_sql *pg_many(const struct bb_sql *sql)
{
    return &((const struct bb_keyed *)(const void *)sql)->many;
}

/* ---- selecting members ---- */

static bool merge_may_share(const struct pg_request *request)
{
    if (request->single || request->alone || !request->rq || !request->ops)
        return false;
    for (const struct pg_op *op = request->ops; op; op = op->next) {
        if (!(op->sql->flags & BB_SQL_KEYED))
            return false;
    }
    return true;
}

static bool merge_asks_the_same(const struct pg_request *one, const struct pg_request *other)
{
    const struct pg_op *a = one->ops, *b = other->ops;

    for (; a && b && a->sql == b->sql && a->count == b->count; a = a->next)
        b = b->next;
    return !a && !b;
}

/*
 * Makes later requests with the same statements members of the execution of `first`. Units are
 * sorted by key, and must take their locks in this order. So only the first unit with each key can
 * be a member. If the first unit with a key has other statements, the search ends.
 */
static void merge_into(struct pg_pool *pool, struct pg_request *first, unsigned most)
{
    bool units = pool->kind == PG_UNIT;
    struct pg_request **end = &first->next_member;
    unsigned members = 1;

    for (struct pg_request *before = first, *request = first->next; request && members < most;
         before = request, request = request->next) {
        if (request->uses_earlier_result || (units && request->key == before->key))
            continue;
        if (!merge_may_share(request) || !merge_asks_the_same(first, request)) {
            if (units)
                break;
            continue;
        }
        *end = request;
        end = &request->next_member;
        members++;
    }
    *end = NULL;
    if (members < LEAST)
        return;
    first->members = members;
    pool->shared++;
    pool->sharers += members;
    for (struct pg_request *member = first->next_member; member; member = member->next_member)
        member->uses_earlier_result = true;
}

void pg_merge(struct pg_pool *pool, struct pg_request *requests)
{
    int64_t gather = pool->pg->loop->host->database.gather;
    unsigned most = gather < MEMBERS_MAX ? (unsigned)gather : MEMBERS_MAX;

    for (struct pg_request *request = requests; most > 1 && request; request = request->next) {
        if (!request->uses_earlier_result && merge_may_share(request))
            merge_into(pool, request, most);
    }
}

void pg_merge_forget(struct pg_request *request)
{
    request->uses_earlier_result = false;
    request->members = 0;
    request->next_member = NULL;
}

/* ---- sending ---- */

/* Returns the statement of `member` that corresponds to `op` in `first`. */
static struct pg_op *merge_same_op(const struct pg_request *first, const struct pg_op *op,
                                   struct pg_request *member)
{
    struct pg_op *same = member->ops;

    for (const struct pg_op *at = first->ops; at != op; at = at->next)
        same = same->next;
    return same;
}

/* Returns the values of a parameter in all members as an array; NULL: out of memory. */
static const char *merge_array(struct pg_request *first, const struct pg_op *op, int param)
{
    const char *values[MEMBERS_MAX];
    size_t count = 0;

    for (struct pg_request *member = first; member; member = member->next_member) {
        const struct pg_op *own = merge_same_op(first, op, member);
        const char *value = own->values[param];

        if (value && own->formats[param]) { /* bytes, in bytea's format */
            size_t length = (size_t)own->lengths[param];
            char *digits = arena_alloc(first->memory, 2 * length + sizeof "\\x");

            if (!digits)
                return NULL;
            memcpy(digits, "\\x", 2);
            text_hex(value, length, digits + 2);
            value = digits;
        }
        values[count++] = value;
    }
    return pg_texts_array(first->memory, values, count);
}

const char *const *pg_merge_values(struct pg_request *first, const struct pg_op *op)
{
    const char **values = arena_alloc(first->memory, (size_t)op->count * sizeof *values);

    for (int i = 0; values && i < op->count; i++) {
        values[i] = merge_array(first, op, i);
        if (!values[i])
            return NULL;
    }
    return values;
}

/* ---- distributing the rows ---- */

void pg_shared_release(struct pg_shared *shared)
{
    if (--shared->holders)
        return;
    PQclear(shared->result);
    free(shared);
}

/* Returns the index of the member to which a row belongs; -1 if the row's ordinal is invalid. */
static int merge_member_of(const PGresult *result, int row, int column, unsigned members)
{
    long ordinal =
        PQgetisnull(result, row, column) ? 0 : strtol(PQgetvalue(result, row, column), NULL, 10);

    return ordinal >= 1 && ordinal <= (long)members ? (int)ordinal - 1 : -1;
}

/* Fills shared->order and `where`: the rows of member i are order[where[i]..where[i + 1]).
 * Returns false if a row belongs to no member. */
static bool merge_sort_rows(struct pg_shared *shared, unsigned members, int where[])
{
    int rows = PQntuples(shared->result), column = PQnfields(shared->result) - 1, placed = 0;
    int next[MEMBERS_MAX + 1] = {0};

    for (int row = 0; row < rows; row++) {
        int member = merge_member_of(shared->result, row, column, members);

        if (member >= 0)
            next[member + 1]++;
    }
    for (unsigned i = 0; i < members; i++)
        next[i + 1] += next[i];
    memcpy(where, next, (members + 1) * sizeof *where);
    for (int row = 0; row < rows; row++) {
        int member = merge_member_of(shared->result, row, column, members);

        if (member >= 0) {
            shared->order[next[member]++] = row;
            placed++;
        }
    }
    return placed == rows;
}

int pg_merge_distribute(struct pg_request *first, const struct pg_op *op, PGresult *result)
{
    struct pg_shared *shared = malloc(sizeof *shared + (size_t)PQntuples(result) * sizeof(int));
    int where[MEMBERS_MAX + 1], *at = where;

    if (!shared) {
        PQclear(result);
        return -1;
    }
    *shared = (struct pg_shared){.result = result};
    if (!merge_sort_rows(shared, first->members, where))
        log_line(BB_ERROR, "keyed statement returned rows for unknown keys", "statement",
                 pg_many(op->sql)->text, NULL);
    for (struct pg_request *member = first; member; member = member->next_member, at++) {
        struct pg_op *own = merge_same_op(first, op, member);

        pg_rows_drop(&own->rows);
        own->rows = (struct bb_rows){result, shared, shared->order + at[0], at[1] - at[0]};
        shared->holders++;
    }
    return 0;
}

void pg_merge_failed(struct pg_request *first, const PGresult *result)
{
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    /* reports a wrong SQL text in `many`, which would otherwise only cause retries */
    if (sqlstate_has(sqlstate, SQLSTATE_TEXT))
        log_line(BB_ERROR, "keyed statement failed for several keys", "statement",
                 pg_many(first->ops->sql)->text, "sqlstate", sqlstate, NULL);
    for (struct pg_request *member = first; member; member = member->next_member)
        member->single = true;
}
