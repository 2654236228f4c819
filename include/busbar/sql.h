/*
 * PostgreSQL from a handler. Statements are const objects with static storage; the host prepares
 * each once per connection. Values are always sent as parameters.
 *
 * There are three ways to run statements:
 * - bb_query(): a single statement on a shared pipelined connection. For reads, and for writes that
 *   are a single statement and raise no event. After a lost connection, only reads are retried.
 * - A unit: a list of statements known in advance, with bb_unit(), bb_add(), bb_emit() and
 *   bb_commit(). Many units share one commit, so each must either do its work or raise an error: a
 *   statement that finds nothing to do calls the SQL function busbar_require(ok, status, text),
 *   which raises SQLSTATE BBnnn. bb_failed() turns it into that status, and the whole unit is
 *   undone. The host generates ids and times (bb_next_id(), bb_new_uuid()), so that the reply is
 *   known before the commit.
 * - bb_transaction(): a function with a separate connection, for rare operations. The host commits
 *   when the function returns a status below 400, and rolls back otherwise.
 *
 * Requests share the connections, and the host begins and ends their transactions. A module must
 * not send a statement that begins or ends a transaction (BEGIN, COMMIT, ROLLBACK, SAVEPOINT, …) or
 * changes the session (SET, LISTEN, DISCARD, CREATE TEMP, session-level advisory locks, …). The
 * host reads no SQL: it finds most of these by what PostgreSQL answers, after they have run. Then
 * the call fails, bb_failed() answers 500, and the connection is closed. SET LOCAL, SET
 * TRANSACTION, SET CONSTRAINTS, DO, CALL and cursors need bb_transaction().
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
     * totals, exports, large columns. It gets a separate connection, of which each account may use
     * few. Without this flag it would delay the statements that share its batch. */
    BB_SQL_LONG = 2,
    BB_SQL_KEYED = 4 /* the first half of a struct bb_keyed */
};

struct bb_sql {
    const char *text; /* with $1, $2, …; cast them ($1::bigint) if the type is not obvious */
    unsigned flags;
};

/*
 * A statement that many requests run at the same time with different values, such as a read by key
 * or a write to one row. Pass `one` to bb_query() or bb_add() like any other statement. Requests
 * that wait for a connection at the same time are sent as one execution of `many`, and each request
 * gets its own rows, as if `one` had been executed for it.
 *
 * `many` has the same parameters as arrays, with the values of the first request first: if `one`
 * has $2::bigint, `many` has $2::bigint[]. BB_KEYS_1() and so on unnest them. A value that is
 * itself an array (bb_ints()) is passed as text: $2::text[], cast to bigint[] after unnesting.
 * `many` returns the columns of `one` followed by the ordinal, a bigint that is 1 for the first
 * request. Rows of the same request come in the request's order, rows of different requests in any
 * order. A request may have no rows.
 *
 * If the execution fails, `one` is run for each request, so that a bad value fails only its own
 * request. All requests of an execution see the same snapshot. bb_affected() is not defined; count
 * the rows that RETURNING returns. Units are merged if they have the same statements and different
 * keys (bb_unit()); if a statement of one unit raises an error, all are undone and each is run
 * separately.
 */
struct bb_keyed {
    struct bb_sql one;  /* with BB_SQL_KEYED */
    struct bb_sql many; /* with the flags of `one`, except BB_SQL_KEYED */
};

/*
 * The arrays of `many` as rows with their ordinal: "FROM " BB_KEYS_2("text", "bigint") " k(email,
 * id, i)". Subqueries read the arrays, so that the planner assumes the same number of keys whether
 * it knows them or not, and keeps its plan (plan_cache_mode).
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

enum bb_value_kind { BB_V_NULL, BB_V_TEXT, BB_V_INT, BB_V_BYTES, BB_V_INTS };

/* A parameter; the data it points to is read before the call returns. */
struct bb_value {
    enum bb_value_kind kind;
    const void *data; /* text (NUL-terminated), bytes, or int64_t[] */
    size_t length;    /* bytes: length; ints: count */
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

/* Runs a statement. Returns the request's rows; NULL on failure: `return bb_failed(rq)`. Parks. */
static inline struct bb_rows *bb_query(struct bb_request *rq, const struct bb_sql *sql,
                                       const struct bb_value *values, size_t count)
{
    return rq->api->query(rq, sql, values, count);
}

static inline size_t bb_count(struct bb_request *rq, const struct bb_rows *rows)
{
    return rq->api->rows_count(rows);
}

/* Number of rows that an INSERT, UPDATE or DELETE affected. */
static inline size_t bb_affected(struct bb_request *rq, const struct bb_rows *rows)
{
    return rq->api->rows_affected(rows);
}

/* A cell as text; NULL for SQL's null. bytea cells are hexadecimal with the prefix \x. */
static inline const char *bb_cell(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                  size_t column)
{
    return rq->api->rows_text(rows, row, column);
}

/* A cell of an integer or boolean column; 0 for null. */
static inline int64_t bb_cell_int(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                  size_t column)
{
    const char *text = rq->api->rows_text(rows, row, column);

    if (!text)
        return 0;
    return text[0] == 't' ? 1 : strtoll(text, NULL, 10);
}

/* SQLSTATE and constraint of the call that just failed; "" if there is none. */
static inline const char *bb_sqlstate(struct bb_request *rq)
{
    return rq->api->sqlstate(rq);
}

static inline const char *bb_constraint(struct bb_request *rq)
{
    return rq->api->constraint(rq);
}

/*
 * Creates a unit. Units with the same key use one connection, in order. Use the id of the object
 * that they lock (the conversation) as the key, so that batches never wait for each other.
 */
static inline struct bb_tx *bb_unit(struct bb_request *rq, uint64_t key)
{
    return rq->api->unit(rq, key);
}

/*
 * Adds a statement to a unit's list (values are copied), or runs it at once in an interactive
 * transaction. Statements of `within` hooks run together before the publisher's next statement or
 * the commit, which fails if one of them does. Returns the index for bb_unit_rows(), or -1 (then
 * `return bb_failed(rq)`).
 */
static inline int bb_add(struct bb_request *rq, struct bb_tx *tx, const struct bb_sql *sql,
                         const struct bb_value *values, size_t count)
{
    return rq->api->add(tx, sql, values, count);
}

/*
 * Runs the unit and, once it is committed, answers with `status` and `json` (taken) and runs the
 * committed hooks. Returns the status. On failure it drops the json, does not answer, and returns
 * 0: the caller returns bb_failed(rq), or checks bb_sqlstate() first.
 */
static inline int bb_commit(struct bb_request *rq, struct bb_tx *unit, int status, json_t *json)
{
    return rq->api->commit(rq, unit, status, json);
}

/* Rows of a statement by the index that bb_add() returned; of a unit only after its commit. */
static inline struct bb_rows *bb_unit_rows(struct bb_request *rq, struct bb_tx *unit, int index)
{
    return rq->api->unit_rows(unit, index);
}

/*
 * Returns memory that belongs to an interactive transaction: `size` bytes, zeroed at first, the
 * same bytes for each call with the same function. Before the commit `last` is called once with
 * this memory, as the module that called bb_before(). Statements that it adds with bb_add() are
 * part of the transaction, which fails if it returns -1. It must not wait. With this, a hook
 * `within` can collect what several events of a transaction have in common and add one statement
 * for all of them. If bb_before() is called after that, because a function of another module raised
 * an event, it returns new bytes, and `last` is called again with them. Returns NULL for a unit,
 * whose statements are sent at once anyway.
 */
static inline void *bb_before(struct bb_request *rq, struct bb_tx *tx,
                              int (*last)(struct bb_request *, struct bb_tx *, void *), size_t size)
{
    return rq->api->before(tx, last, size);
}

/*
 * Calls then(rq, tx, arg) after the commit and before the request is answered, as the module that
 * called bb_after(); never if the transaction fails. It must not wait. Lets a `within` hook read
 * the results of its statements with bb_unit_rows().
 */
static inline void bb_after(struct bb_request *rq, struct bb_tx *tx,
                            void (*then)(struct bb_request *, struct bb_tx *, void *), void *arg)
{
    rq->api->after(tx, then, arg);
}

/*
 * Runs work(rq, tx, arg) in a separate transaction. `work` answers with bb_reply() or bb_fail() and
 * returns the status. The answer is held back until the commit; a failed commit replaces it.
 * Returns the final status: `return bb_transaction(rq, work, arg)`.
 */
static inline int bb_transaction(struct bb_request *rq,
                                 int (*work)(struct bb_request *, struct bb_tx *, void *),
                                 void *arg)
{
    return rq->api->transaction(rq, work, arg);
}

/* Runs a statement in an interactive transaction. NULL: `return bb_failed(rq)`. */
static inline struct bb_rows *bb_tx_query(struct bb_request *rq, struct bb_tx *tx,
                                          const struct bb_sql *sql, const struct bb_value *values,
                                          size_t count)
{
    return rq->api->tx_query(tx, sql, values, count);
}

/* Returns the next id of an SQL sequence, from a reserved block. -1: bb_failed(rq). */
static inline int64_t bb_next_id(struct bb_request *rq, const char *sequence)
{
    return rq->api->next_id(rq, sequence);
}

#endif
