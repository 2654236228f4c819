#ifndef BUSBAR_SQL_H
#define BUSBAR_SQL_H 
#include <stdlib.h>
#include <busbar/request.h>
enum bb_sql_flags {
    BB_SQL_WRITE = 1,
    BB_SQL_LONG = 2,
    BB_SQL_KEYED = 4
};
struct bb_sql {
    const char *text;
    unsigned flags;
};
struct bb_keyed {
    struct bb_sql one;
    struct bb_sql many;
};
#define BB_KEYS_ARRAY(n,type) "(SELECT $" #n "::" type "[])"
#define BB_KEYS_LIST_1(a) BB_KEYS_ARRAY(1, a)
#define BB_KEYS_LIST_2(a,b) BB_KEYS_LIST_1(a) ", " BB_KEYS_ARRAY(2, b)
#define BB_KEYS_LIST_3(a,b,c) BB_KEYS_LIST_2(a, b) ", " BB_KEYS_ARRAY(3, c)
#define BB_KEYS_LIST_4(a,b,c,d) BB_KEYS_LIST_3(a, b, c) ", " BB_KEYS_ARRAY(4, d)
#define BB_KEYS_LIST_5(a,b,c,d,e) BB_KEYS_LIST_4(a, b, c, d) ", " BB_KEYS_ARRAY(5, e)
#define BB_KEYS_LIST_6(a,b,c,d,e,f) BB_KEYS_LIST_5(a, b, c, d, e) ", " BB_KEYS_ARRAY(6, f)
#define BB_KEYS_LIST_7(a,b,c,d,e,f,g) \
    BB_KEYS_LIST_6(a, b, c, d, e, f) ", " BB_KEYS_ARRAY(7, g)
#define BB_KEYS_LIST_8(a,b,c,d,e,f,g,h) \
    BB_KEYS_LIST_7(a, b, c, d, e, f, g) ", " BB_KEYS_ARRAY(8, h)
#define BB_KEYS_LIST_9(a,b,c,d,e,f,g,h,j) \
    BB_KEYS_LIST_8(a, b, c, d, e, f, g, h) ", " BB_KEYS_ARRAY(9, j)
#define BB_KEYS_LIST_10(a,b,c,d,e,f,g,h,j,k) \
    BB_KEYS_LIST_9(a, b, c, d, e, f, g, h, j) ", " BB_KEYS_ARRAY(10, k)
#define BB_KEYS(list) "unnest(" list ") WITH ORDINALITY"
#define BB_KEYS_1(a) BB_KEYS(BB_KEYS_LIST_1(a))
#define BB_KEYS_2(a,b) BB_KEYS(BB_KEYS_LIST_2(a, b))
#define BB_KEYS_3(a,b,c) BB_KEYS(BB_KEYS_LIST_3(a, b, c))
#define BB_KEYS_4(a,b,c,d) BB_KEYS(BB_KEYS_LIST_4(a, b, c, d))
#define BB_KEYS_5(a,b,c,d,e) BB_KEYS(BB_KEYS_LIST_5(a, b, c, d, e))
#define BB_KEYS_6(a,b,c,d,e,f) BB_KEYS(BB_KEYS_LIST_6(a, b, c, d, e, f))
#define BB_KEYS_7(a,b,c,d,e,f,g) BB_KEYS(BB_KEYS_LIST_7(a, b, c, d, e, f, g))
#define BB_KEYS_8(a,b,c,d,e,f,g,h) BB_KEYS(BB_KEYS_LIST_8(a, b, c, d, e, f, g, h))
#define BB_KEYS_9(a,b,c,d,e,f,g,h,j) BB_KEYS(BB_KEYS_LIST_9(a, b, c, d, e, f, g, h, j))
#define BB_KEYS_10(a,b,c,d,e,f,g,h,j,k) \
    BB_KEYS(BB_KEYS_LIST_10(a, b, c, d, e, f, g, h, j, k))
enum bb_value_kind { BB_V_NULL, BB_V_TEXT, BB_V_INT, BB_V_BYTES, BB_V_INTS };
struct bb_value {
    enum bb_value_kind kind;
    const void *data;
    size_t length;
    int64_t number;
};
static inline struct bb_value bb_null(void)
{
    struct bb_value value = {BB_V_NULL, NULL, 0, 0};
    return value;
}
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
static inline struct bb_value bb_b(bool yes)
{
    return bb_t(yes ? "t" : "f");
}
static inline struct bb_value bb_bytes(const void *bytes, size_t length)
{
    struct bb_value value = {BB_V_BYTES, bytes, length, 0};
    return value;
}
static inline struct bb_value bb_ints(const int64_t *numbers, size_t count)
{
    struct bb_value value = {BB_V_INTS, numbers, count, 0};
    return value;
}
#ifdef __cplusplus
#define BB_ARGS(...) bb_values({__VA_ARGS__}), sizeof bb_values_counted({__VA_ARGS__})
#else
#define BB_ARGS(...) \
    (const struct bb_value[]){__VA_ARGS__}, \
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
static inline struct bb_rows *bb_query(struct bb_request *rq, const struct bb_sql *sql,
                                       const struct bb_value *values, size_t count)
{
    return rq->api->query(rq, sql, values, count);
}
static inline size_t bb_count(struct bb_request *rq, const struct bb_rows *rows)
{
    return rq->api->rows_count(rows);
}
static inline size_t bb_affected(struct bb_request *rq, const struct bb_rows *rows)
{
    return rq->api->rows_affected(rows);
}
static inline const char *bb_cell(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                  size_t column)
{
    return rq->api->rows_text(rows, row, column);
}
static inline int64_t bb_cell_int(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                  size_t column)
{
    const char *text = rq->api->rows_text(rows, row, column);
    if (!text)
        return 0;
    return text[0] == 't' ? 1 : strtoll(text, NULL, 10);
}
static inline const char *bb_sqlstate(struct bb_request *rq)
{
    return rq->api->sqlstate(rq);
}
static inline const char *bb_constraint(struct bb_request *rq)
{
    return rq->api->constraint(rq);
}
static inline struct bb_tx *bb_unit(struct bb_request *rq, uint64_t key)
{
    return rq->api->unit(rq, key);
}
static inline int bb_add(struct bb_request *rq, struct bb_tx *tx, const struct bb_sql *sql,
                         const struct bb_value *values, size_t count)
{
    return rq->api->add(tx, sql, values, count);
}
static inline int bb_commit(struct bb_request *rq, struct bb_tx *unit, int status, json_t *json)
{
    return rq->api->commit(rq, unit, status, json);
}
static inline struct bb_rows *bb_unit_rows(struct bb_request *rq, struct bb_tx *unit, int index)
{
    return rq->api->unit_rows(unit, index);
}
static inline void *bb_before(struct bb_request *rq, struct bb_tx *tx,
                              int (*last)(struct bb_request *, struct bb_tx *, void *), size_t size)
{
    return rq->api->before(tx, last, size);
}
static inline void bb_after(struct bb_request *rq, struct bb_tx *tx,
                            void (*then)(struct bb_request *, struct bb_tx *, void *), void *arg)
{
    rq->api->after(tx, then, arg);
}
static inline int bb_transaction(struct bb_request *rq,
                                 int (*work)(struct bb_request *, struct bb_tx *, void *),
                                 void *arg)
{
    return rq->api->transaction(rq, work, arg);
}
static inline struct bb_rows *bb_tx_query(struct bb_request *rq, struct bb_tx *tx,
                                          const struct bb_sql *sql, const struct bb_value *values,
                                          size_t count)
{
    return rq->api->tx_query(tx, sql, values, count);
}
static inline int64_t bb_next_id(struct bb_request *rq, const char *sequence)
{
    return rq->api->next_id(rq, sequence);
}
#endif
