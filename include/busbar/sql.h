/*
 * PostgreSQL from a handler. Statements are const objects with static storage; the host prepares
 * each once on a connection. Values travel as parameters, always.
 *
 * Three ways:
 * - bb_query(): one statement by itself, on a shared pipelined connection. Reads; and a write that
 *   is a single statement and raises no event. A lost connection is retried for reads only.
 * - a unit: a list of statements known beforehand. bb_unit(), bb_add(), bb_emit(), bb_commit().
 *   Many units share one commit, so each must either do its work or raise: a statement that finds
 *   nothing to do calls busbar_require(ok, status, text) in SQL (it raises SQLSTATE BBnnn, which
 *   bb_failed() turns into that status), and the whole unit is undone. Ids and times are made
 *   by the host (bb_next_id(), bb_new_uuid()), so that the reply is known before the commit.
 * - bb_transaction(): a function with a connection of its own, for what is rare. The host commits
 *   when the function returns a status under 400, and rolls back otherwise.
 *
 * The connections are shared, and their transactions are the host's. A statement that begins or
 * ends one (BEGIN, COMMIT, ROLLBACK, SAVEPOINT, …) or changes the session (SET, RESET, LISTEN,
 * PREPARE, DISCARD, session-level advisory locks, …), COPY, what cannot run in a transaction, and a
 * text with several statements or none are refused: the call fails, and bb_failed() answers 500.
 * SET LOCAL, SET TRANSACTION, SET CONSTRAINTS, DO, CALL and cursors need bb_transaction().
 *
 * Both kinds of transaction store the reply of a request with Idempotency-Key in the same commit.
 */
#ifndef BUSBAR_SQL_H
#define BUSBAR_SQL_H

#include <stdlib.h>

#include <busbar/request.h>

enum bb_sql_flags {
    /* bb_query(): it writes. It is not retried after a lost connection, and travels apart from
     * reads, which would wait for its commit. */
    BB_SQL_WRITE = 1,
    /* Its cost depends on how much is stored: lists, searches, counts, totals, exports, large
     * columns. It has a connection to itself, of which each account gets few; any other statement
     * holds up those that share its batch. */
    BB_SQL_LONG = 2,
    BB_SQL_KEYED = 4 /* the first half of a struct bb_keyed; since minor 8 */
};

struct bb_sql {
    const char *text; /* with $1, $2, … ; cast them ($1::bigint) where the type is not plain */
    unsigned flags;
};

/*
 * A statement that many requests ask at a time, each with its own values: a point read by a key, a
 * write to one row. Hand `one` to bb_query() or bb_add(), as any other statement. What waits for a
 * connection at the same time is sent as one execution of `many` then, and each request gets its
 * own rows, as if `one` had been executed for it.
 *
 * `many` has the same parameters as arrays, the values of the first request first: where `one` has
 * $2::bigint, it has $2::bigint[]. BB_KEYS_1() and so on unnest them. A value that is an array
 * itself (bb_ints()) comes as its text: $2::text[], cast to bigint[] when it is unnested. Columns
 * are those of `one` and, behind them, the ordinal: a bigint, 1 for the first request. Rows of a
 * request come in its order; rows of different requests in any. A request without a row has none.
 *
 * If the execution fails, each request is asked by itself with `one`: one bad value fails alone.
 * All requests of an execution see the same snapshot. bb_affected() is not defined; count rows that
 * RETURNING gives. Of units, those with the same statements and different keys (bb_unit()) are put
 * together; a statement of one of them that raises undoes all, and each is run again by itself.
 * Since minor 8.
 */
struct bb_keyed {
    struct bb_sql one;  /* with BB_SQL_KEYED */
    struct bb_sql many; /* with the flags of `one` but for BB_SQL_KEYED */
};

/*
 * The arrays of `many` as rows with their ordinal: "FROM " BB_KEYS_2("text", "bigint") " k(email,
 * id, i)". The arrays are read by subqueries, so that the planner assumes the same number of keys
 * whether it knows them or not, and keeps the plan that it has (plan_cache_mode).
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

/* A parameter; what it points to is read before the call returns. */
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

/* NULL is SQL's null. */
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
 * last until the end of the block, in C++ until the end of the statement.
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

/* The rows, borrowed until the request ends; NULL on failure: `return bb_failed(rq)`. Parks. */
static inline struct bb_rows *bb_query(struct bb_request *rq, const struct bb_sql *sql,
                                       const struct bb_value *values, size_t count)
{
    return rq->api->query(rq, sql, values, count);
}

static inline size_t bb_count(struct bb_request *rq, const struct bb_rows *rows)
{
    return rq->api->rows_count(rows);
}

/* Rows that an INSERT, UPDATE or DELETE touched. */
static inline size_t bb_affected(struct bb_request *rq, const struct bb_rows *rows)
{
    return rq->api->rows_affected(rows);
}

/* A cell as text; NULL for SQL's null. bytea cells are hexadecimal with \x in front. */
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

/* SQLSTATE and constraint of the call that just failed; "" where there is none. */
static inline const char *bb_sqlstate(struct bb_request *rq)
{
    return rq->api->sqlstate(rq);
}

static inline const char *bb_constraint(struct bb_request *rq)
{
    return rq->api->constraint(rq);
}

/*
 * A new unit. Units with the same key keep to one connection, in their order; take the id of what
 * they lock (the conversation), so that batches never wait for each other.
 */
static inline struct bb_tx *bb_unit(struct bb_request *rq, uint64_t key)
{
    return rq->api->unit(rq, key);
}

/*
 * Adds a statement: to a unit's list (values are copied), or runs it at once in an interactive
 * transaction; those of hooks `within` run together, before the publisher's next statement or the
 * commit, which fails where one of them does. Returns its index for bb_unit_rows(), or -1 (then
 * `return bb_failed(rq)`).
 */
static inline int bb_add(struct bb_request *rq, struct bb_tx *tx, const struct bb_sql *sql,
                         const struct bb_value *values, size_t count)
{
    return rq->api->add(tx, sql, values, count);
}

/*
 * Runs the unit and, when it is in the database, answers with status and json (taken); committed
 * hooks then run. On failure the json is dropped and nothing is answered: returns 0, and the caller
 * says `return bb_failed(rq)` or looks at bb_sqlstate(). Otherwise returns the status.
 */
static inline int bb_commit(struct bb_request *rq, struct bb_tx *unit, int status, json_t *json)
{
    return rq->api->commit(rq, unit, status, json);
}

/* The rows of a statement by the index that bb_add() gave; of a unit, once it is committed. */
static inline struct bb_rows *bb_unit_rows(struct bb_request *rq, struct bb_tx *unit, int index)
{
    return rq->api->unit_rows(unit, index);
}

/*
 * Memory that goes with an interactive transaction: `size` bytes, zeroed, the same ones whenever it
 * is asked for with the same function. Before the commit that function is called with it, once, as
 * the module that asked: what it adds with bb_add() is part of the transaction, which fails if it
 * returns -1. It must not wait. So a hook `within` gathers what many events of a transaction have
 * in common, and adds one statement for all of them. Who asks after that call, because another
 * module's function raised an event, gets new bytes, and a call with them. NULL for a unit: its
 * statements travel at once anyway. Since minor 6.
 */
static inline void *bb_before(struct bb_request *rq, struct bb_tx *tx,
                              int (*last)(struct bb_request *, struct bb_tx *, void *), size_t size)
{
    return rq->api->before(tx, last, size);
}

/*
 * Calls then(rq, tx, arg) after the commit, before the request is answered, as the module that
 * asked for it; not at all when the transaction fails. It must not wait. For what a within hook
 * wants to know of its own statements: bb_unit_rows().
 */
static inline void bb_after(struct bb_request *rq, struct bb_tx *tx,
                            void (*then)(struct bb_request *, struct bb_tx *, void *), void *arg)
{
    rq->api->after(tx, then, arg);
}

/*
 * Runs work(rq, tx, arg) in a transaction of its own. `work` answers with bb_reply() or bb_fail()
 * and returns the status. Its answer is withheld until the commit; a failed commit replaces it.
 * Returns the final status: `return bb_transaction(rq, work, arg)`.
 */
static inline int bb_transaction(struct bb_request *rq,
                                 int (*work)(struct bb_request *, struct bb_tx *, void *),
                                 void *arg)
{
    return rq->api->transaction(rq, work, arg);
}

/* A statement inside an interactive transaction. NULL: `return bb_failed(rq)`. */
static inline struct bb_rows *bb_tx_query(struct bb_request *rq, struct bb_tx *tx,
                                          const struct bb_sql *sql, const struct bb_value *values,
                                          size_t count)
{
    return rq->api->tx_query(tx, sql, values, count);
}

/* The next id of an SQL sequence, from a block that the host keeps. -1: bb_failed(rq). */
static inline int64_t bb_next_id(struct bb_request *rq, const char *sequence)
{
    return rq->api->next_id(rq, sequence);
}

#endif
