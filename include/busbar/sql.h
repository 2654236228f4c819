/*
 * Functions that query PostgreSQL. Statements are const objects with static storage; the host
 * prepares each once per connection. Values are always sent as parameters.
 *
 * There are three ways to run statements:
 * - bb_query() runs a single statement on a shared pipelined connection. Use it for reads, and for
 *   writes that are a single statement and raise no event. If the connection is lost, the host
 *   retries only reads.
 * - A unit is a list of statements known in advance, made with bb_unit(), bb_add(), bb_emit() and
 *   bb_commit(). Many units share one commit, so each must either do its work or raise an error: a
 *   statement that finds nothing to do calls the SQL function busbar_require(ok, status, text). If
 *   `ok` is false, the function raises SQLSTATE BBnnn, which rolls back the whole unit, and
 *   bb_failed() answers with the status nnn. The host generates ids (bb_next_id(), bb_new_uuid()),
 *   so that the reply is known before the commit.
 * - bb_transaction() runs a function with a separate connection. Use it for rare operations. The
 *   host commits if the function returns a status below 400, and rolls back otherwise.
 *
 * Requests share the connections, and the host begins and ends their transactions. A module must
 * not send a statement that begins or ends a transaction (BEGIN, COMMIT, ROLLBACK, SAVEPOINT, …) or
 * changes the session (SET, LISTEN, DISCARD, CREATE TEMP, session-level advisory locks, …). The
 * host does not parse SQL: it recognizes most of these statements by PostgreSQL's response, after
 * they have run. The call fails then, bb_failed() answers with 500, and the host closes the
 * connection. SET LOCAL, SET TRANSACTION, SET CONSTRAINTS, DO, CALL and cursors need
 * bb_transaction().
 *
 * Units and transactions store the reply of a request with Idempotency-Key in the same commit.
 */
#ifndef BUSBAR_SQL_H
#define BUSBAR_SQL_H

#include <stdlib.h>

#include <busbar/request.h>

enum bb_sql_flags {
    /* bb_query(): the statement writes. It is not retried after a lost connection, and is sent
     * separately from reads, which would otherwise wait for its commit. */
    BB_SQL_WRITE = 1,
    /* The cost of the statement depends on the amount of stored data: lists, searches, counts,
     * totals, exports, large columns. It runs on a separate connection, and each account may use
     * only a few of these connections. Without this flag it would delay its whole batch. */
    BB_SQL_LONG = 2,
    BB_SQL_KEYED = 4, /* the statement is the member `one` of a struct bb_keyed */
    /* A read that may run on a replica (`database.replicas`): lists, searches, exports, logs,
     * totals. bb_query() returns rows that are as new as the primary's at the time of the call. Do
     * not set this for a statement that decides about access, locks rows, calls a function that
     * writes, or compares with now(), because a replica has its own clock. */
    BB_SQL_REPLICA = 8,
    BB_SQL_LIST = BB_SQL_LONG | BB_SQL_REPLICA
};

struct bb_sql {
    const char *text; /* with $1, $2, …; cast them ($1::bigint) if their type is ambiguous */
    unsigned flags;
};

/*
 * A statement that many requests run at the same time with different values, such as a read by key
 * or a write to one row. Pass `one` to bb_query() or bb_add() like any other statement. For all
 * requests that wait for a connection at the same time, the host executes `many` once, and gives
 * each request its own rows, as if `one` had been executed for it.
 *
 * `many` has the same parameters as arrays, with the values of the first request first: if `one`
 * has $2::bigint, `many` has $2::bigint[]. BB_KEYS_1() and so on unnest them. A value that is
 * itself an array (bb_ints(), bb_texts()) is passed as text: $2::text[], cast to bigint[] after
 * unnesting. `many` returns the columns of `one` followed by the ordinal, a bigint that is 1 for
 * the first request. It must return the rows of one request in the order of `one`; rows of
 * different requests may come in any order. A request may have no rows.
 *
 * If the execution fails, `one` is run for each request, so that a bad value fails only its own
 * request. All requests of an execution see the same snapshot. The result of bb_affected() is
 * undefined; count the rows that RETURNING returns. Units are merged if they have the same
 * statements and different keys (bb_unit()); if a statement of one unit raises an error, all are
 * rolled back and each is run separately.
 */
struct bb_keyed {
    struct bb_sql one;  /* with BB_SQL_KEYED */
    struct bb_sql many; /* with the flags of `one`, except BB_SQL_KEYED */
};

/*
 * SQL that turns the arrays of `many` into rows with their ordinal: "FROM " BB_KEYS_2("text",
 * "bigint") " k(email, id, i)". The arrays are in subqueries, so that the planner estimates the
 * same number of keys with and without their values, and keeps a generic plan (plan_cache_mode).
 */
#define BB_KEYS_ARRAY(n, type) "(SELECT $" #n "::" type "[])"
#define BB_KEYS_LIST_1(a) BB_KEYS_ARRAY(1, a)
#define BB_KEYS_LIST_2(a, b) BB_KEYS_LIST_1(a) ", " BB_KEYS_ARRAY(2, b)
#define BB_KEYS_LIST_3(a, b, c) BB_KEYS_LIST_2(a, b) ", " BB_KEYS_ARRAY(3, c)
#define BB_KEYS_LIST_4(a, b, c, d) BB_KEYS_LIST_3(a, b, c) ", " BB_KEYS_ARRAY(4, d)
#define BB_KEYS_LIST_5(a, b, c, d, e) BB_KEYS_LIST_4(a, b, c, d) ", " BB_KEYS_ARRAY(5, e)
#define BB_KEYS_LIST_6(a, b, c, d, e, f) BB_KEYS_LIST_5(a, b, c, d, e) ", " BB_KEYS_ARRAY(6, f)
#define BB_KEYS_LIST_7(a, b, c, d, e, f, g)                                                        \
    BB_KEYS_LIST_6(a, b, c, d, e, f) ", " BB_KEYS_ARRAY(7, g)
#define BB_KEYS_LIST_8(a, b, c, d, e, f, g, h)                                                     \
    BB_KEYS_LIST_7(a, b, c, d, e, f, g) ", " BB_KEYS_ARRAY(8, h)
#define BB_KEYS_LIST_9(a, b, c, d, e, f, g, h, j)                                                  \
    BB_KEYS_LIST_8(a, b, c, d, e, f, g, h) ", " BB_KEYS_ARRAY(9, j)
#define BB_KEYS_LIST_10(a, b, c, d, e, f, g, h, j, k)                                              \
    BB_KEYS_LIST_9(a, b, c, d, e, f, g, h, j) ", " BB_KEYS_ARRAY(10, k)
#define BB_KEYS(list) "unnest(" list ") WITH ORDINALITY"
#define BB_KEYS_1(a) BB_KEYS(BB_KEYS_LIST_1(a))
#define BB_KEYS_2(a, b) BB_KEYS(BB_KEYS_LIST_2(a, b))
#define BB_KEYS_3(a, b, c) BB_KEYS(BB_KEYS_LIST_3(a, b, c))
#define BB_KEYS_4(a, b, c, d) BB_KEYS(BB_KEYS_LIST_4(a, b, c, d))
#define BB_KEYS_5(a, b, c, d, e) BB_KEYS(BB_KEYS_LIST_5(a, b, c, d, e))
#define BB_KEYS_6(a, b, c, d, e, f) BB_KEYS(BB_KEYS_LIST_6(a, b, c, d, e, f))
#define BB_KEYS_7(a, b, c, d, e, f, g) BB_KEYS(BB_KEYS_LIST_7(a, b, c, d, e, f, g))
#define BB_KEYS_8(a, b, c, d, e, f, g, h) BB_KEYS(BB_KEYS_LIST_8(a, b, c, d, e, f, g, h))
#define BB_KEYS_9(a, b, c, d, e, f, g, h, j) BB_KEYS(BB_KEYS_LIST_9(a, b, c, d, e, f, g, h, j))
#define BB_KEYS_10(a, b, c, d, e, f, g, h, j, k)                                                   \
    BB_KEYS(BB_KEYS_LIST_10(a, b, c, d, e, f, g, h, j, k))

enum bb_value_kind { BB_V_NULL, BB_V_TEXT, BB_V_INT, BB_V_BYTES, BB_V_INTS, BB_V_TEXTS };

/* A parameter. `data` is read before the call returns. */
struct bb_value {
    enum bb_value_kind kind;
    const void *data; /* text (NUL-terminated), bytes, int64_t[], or const char *[] */
    size_t length;    /* number of bytes, of integers or of texts; 0 for a single value */
    int64_t number;
};

static inline struct bb_value bb_null(void)
{
    struct bb_value value = {BB_V_NULL, NULL, 0, 0};

    return value;
}

/* NULL becomes SQL's null. */
static inline struct bb_value bb_t(const char *text)
{
    struct bb_value value = {text ? BB_V_TEXT : BB_V_NULL, text, 0, 0};

    return value;
}

static inline struct bb_value bb_i(int64_t number)
{
    struct bb_value value = {BB_V_INT, NULL, 0, number};

    return value;
}

/* "t" or "f", for boolean parameters. */
static inline struct bb_value bb_b(bool yes)
{
    return bb_t(yes ? "t" : "f");
}

/* bytea */
static inline struct bb_value bb_bytes(const void *bytes, size_t length)
{
    struct bb_value value = {BB_V_BYTES, bytes, length, 0};

    return value;
}

/* bigint[] */
static inline struct bb_value bb_ints(const int64_t *numbers, size_t count)
{
    struct bb_value value = {BB_V_INTS, numbers, count, 0};

    return value;
}

/* text[]; a text that is NULL becomes SQL's null. */
static inline struct bb_value bb_texts(const char *const *texts, size_t count)
{
    struct bb_value value = {BB_V_TEXTS, texts, count, 0};

    return value;
}

/*
 * The parameters of a statement: bb_query(rq, &find, BB_ARGS(bb_t(email), bb_i(id))). In C they
 * live until the end of the block, in C++ until the end of the statement.
 */
#ifdef __cplusplus
#define BB_ARGS(...) bb_values({__VA_ARGS__}), sizeof bb_values_counted({__VA_ARGS__})
#else
#define BB_ARGS(...)                                                                               \
    (const struct bb_value[]){__VA_ARGS__},                                                        \
        sizeof((const struct bb_value[]){__VA_ARGS__}) / sizeof(struct bb_value)
#endif
#define BB_NO_ARGS NULL, 0

#ifdef __cplusplus
extern "C++" {
template <size_t count> constexpr const bb_value *bb_values(const bb_value (&&values)[count])
{
    return values;
}
template <size_t count> char (&bb_values_counted(const bb_value (&&)[count]))[count];
}
#endif

/* Runs a statement. Returns the rows, or NULL (then `return bb_failed(rq)`). Parks. */
static inline struct bb_rows *bb_query(struct bb_request *rq, const struct bb_sql *sql,
                                       const struct bb_value *values, size_t count)
{
    return rq->api->query(rq, sql, values, count);
}

/* Like bb_query(), but on failure calls bb_end(rq, bb_failed(rq)); see bb_end() in reply.h. */
static inline struct bb_rows *bb_query_or_end(struct bb_request *rq, const struct bb_sql *sql,
                                              const struct bb_value *values, size_t count)
{
    struct bb_rows *rows = bb_query(rq, sql, values, count);

    if (!rows)
        bb_end(rq, bb_failed(rq));
    return rows;
}

static inline size_t bb_count(struct bb_request *rq, const struct bb_rows *rows)
{
    return rq->api->rows_count(rows);
}

/* Like bb_query_or_end(). Without a row it also ends the request, with 404 "(what) not found". */
static inline struct bb_rows *bb_find_or_end(struct bb_request *rq, const struct bb_sql *sql,
                                             const struct bb_value *values, size_t count,
                                             const char *what)
{
    struct bb_rows *rows = bb_query_or_end(rq, sql, values, count);

    if (bb_count(rq, rows) == 0)
        bb_end(rq, bb_fail(rq, 404, "%s not found", what));
    return rows;
}

/* Returns the number of rows that an INSERT, UPDATE or DELETE affected. */
static inline size_t bb_affected(struct bb_request *rq, const struct bb_rows *rows)
{
    return rq->api->rows_affected(rows);
}

/* Returns a cell as text (bytea as hexadecimal with the prefix \x); NULL for SQL's null. */
static inline const char *bb_cell(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                  size_t column)
{
    return rq->api->rows_text(rows, row, column);
}

/* Returns a cell of an integer or boolean column; 0 for null. */
static inline int64_t bb_cell_int(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                  size_t column)
{
    const char *text = rq->api->rows_text(rows, row, column);

    if (!text)
        return 0;
    return text[0] == 't' ? 1 : strtoll(text, NULL, 10);
}

/* Return the SQLSTATE and the constraint of the call that just failed; "" if there is none. */
static inline const char *bb_sqlstate(struct bb_request *rq)
{
    return rq->api->sqlstate(rq);
}

static inline const char *bb_constraint(struct bb_request *rq)
{
    return rq->api->constraint(rq);
}

/*
 * Creates a unit. Units with the same key run one after the other on the same connection. Use the
 * id of the object that they lock (such as the conversation) as the key, so that batches never wait
 * for each other's locks.
 */
static inline struct bb_tx *bb_unit(struct bb_request *rq, uint64_t key)
{
    return rq->api->unit(rq, key);
}

/*
 * Adds a statement to a unit's list and copies the values, or, in an interactive transaction, runs
 * the statement at once. Statements of `within` hooks are collected, and run together before the
 * publisher's next statement or commit; if one fails, the publisher's call fails. Returns the index
 * for bb_unit_rows(), or -1 (then `return bb_failed(rq)`).
 */
static inline int bb_add(struct bb_request *rq, struct bb_tx *tx, const struct bb_sql *sql,
                         const struct bb_value *values, size_t count)
{
    return rq->api->add(tx, sql, values, count);
}

/*
 * Runs and commits the unit, answers with `status` and `json`, starts the committed hooks, and
 * returns the status. Takes ownership of `json`. On failure returns 0 without an answer. The
 * caller then returns bb_failed(rq), or checks bb_sqlstate() first.
 */
static inline int bb_commit(struct bb_request *rq, struct bb_tx *unit, int status, json_t *json)
{
    return rq->api->commit(rq, unit, status, json);
}

/* Returns the rows of a statement by the index from bb_add(); for a unit only after its commit. */
static inline struct bb_rows *bb_unit_rows(struct bb_request *rq, struct bb_tx *unit, int index)
{
    return rq->api->unit_rows(unit, index);
}

/*
 * Makes the host call last(rq, tx, memory) once before the commit of an interactive transaction,
 * and returns `memory`: `size` bytes, initially zero. Calls with the same `last` in one transaction
 * return the same memory. So a `within` hook can collect the events of a transaction and add one
 * statement for all of them. `last` runs on behalf of the module that called bb_before(). It may
 * add statements with bb_add(), must not wait, and fails the transaction by returning -1. If
 * bb_before() is called after the call of `last`, because another module raised an event, it
 * returns new memory, and `last` is called again. For a unit bb_before() returns NULL, because a
 * unit's statements are sent together anyway.
 */
static inline void *bb_before(struct bb_request *rq, struct bb_tx *tx,
                              int (*last)(struct bb_request *, struct bb_tx *, void *), size_t size)
{
    return rq->api->before(tx, last, size);
}

/*
 * Makes the host call then(rq, tx, arg) after the commit and before the request is answered, on
 * behalf of the module that called bb_after(). If the transaction fails, `then` is not called.
 * `then` must not wait. It can read the results of `within` hooks with bb_unit_rows().
 */
static inline void bb_after(struct bb_request *rq, struct bb_tx *tx,
                            void (*then)(struct bb_request *, struct bb_tx *, void *), void *arg)
{
    rq->api->after(tx, then, arg);
}

/*
 * Runs work(rq, tx, arg) in a separate transaction. `work` answers with bb_reply() or bb_fail() and
 * returns the status. The host sends the response only after the commit; if the commit fails, it
 * sends an error instead. Returns the final status: `return bb_transaction(rq, work, arg)`.
 */
static inline int bb_transaction(struct bb_request *rq,
                                 int (*work)(struct bb_request *, struct bb_tx *, void *),
                                 void *arg)
{
    return rq->api->transaction(rq, work, arg);
}

/* Like bb_query(), but runs the statement in the interactive transaction `tx`. */
static inline struct bb_rows *bb_tx_query(struct bb_request *rq, struct bb_tx *tx,
                                          const struct bb_sql *sql, const struct bb_value *values,
                                          size_t count)
{
    return rq->api->tx_query(tx, sql, values, count);
}

/* Like bb_tx_query(), but on failure calls bb_end(rq, bb_failed(rq)). */
static inline struct bb_rows *bb_tx_query_or_end(struct bb_request *rq, struct bb_tx *tx,
                                                 const struct bb_sql *sql,
                                                 const struct bb_value *values, size_t count)
{
    struct bb_rows *rows = bb_tx_query(rq, tx, sql, values, count);

    if (!rows)
        bb_end(rq, bb_failed(rq));
    return rows;
}

/*
 * Checks If-Match of a request to a route with BB_VERSIONED: if the header does not contain the
 * object's current ETag, ends the request with 412. `current` must lock the object's row until the
 * end of the transaction (FOR UPDATE), and json() converts this row to the object that GET returns.
 * If `current` finds no row, returns. The handler must then send 404; the host turns it into 412.
 */
static inline void
bb_if_match_or_end(struct bb_request *rq, struct bb_tx *tx, const struct bb_sql *current,
                   const struct bb_value *values, size_t count,
                   json_t *(*json)(struct bb_request *, const struct bb_rows *, size_t))
{
    if (!bb_header(rq, "If-Match"))
        return;
    const struct bb_rows *rows = bb_tx_query_or_end(rq, tx, current, values, count);
    int refused = bb_count(rq, rows) ? rq->api->if_match(rq, json(rq, rows, 0)) : 0;

    if (refused)
        bb_end(rq, refused);
}

/*
 * Returns the next id of an SQL sequence, from a reserved block. Returns -1 on failure; then
 * `return bb_failed(rq)`.
 */
static inline int64_t bb_next_id(struct bb_request *rq, const char *sequence)
{
    return rq->api->next_id(rq, sequence);
}

#endif
