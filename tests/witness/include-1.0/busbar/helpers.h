#ifndef BUSBAR_HELPERS_H
#define BUSBAR_HELPERS_H 
#include <stdlib.h>
#include <string.h>
#include <busbar/sql.h>
#define BB_SQL_MS(column) "floor(extract(epoch FROM " column ") * 1000)::bigint"
#define BB_SQL_TIME(column) \
    "to_char(" column " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
typedef json_t *bb_item(struct bb_request *rq, const struct bb_rows *rows, size_t row);
static inline int bb_reply_page(struct bb_request *rq, const struct bb_rows *rows, size_t count,
                                const char *next, bb_item *item)
{
    if (next && bb_reply_next(rq, next) < 0)
        return bb_failed(rq);
    json_t *list = json_array();
    for (size_t row = 0; list && row < count; row++) {
        if (json_array_append_new(list, item(rq, rows, row)) < 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return bb_reply(rq, 200, list);
}
static inline int bb_reply_rows(struct bb_request *rq, const struct bb_rows *rows, size_t limit,
                                size_t key, bb_item *item)
{
    size_t count = bb_count(rq, rows);
    bool more = count > limit;
    if (more)
        count = limit;
    return bb_reply_page(rq, rows, count, more ? bb_cell(rq, rows, count - 1, key) : NULL, item);
}
static inline int bb_nibble(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}
static inline int64_t bb_cell_bytes(const char *cell, void *bytes, size_t room)
{
    size_t digits = cell && cell[0] == '\\' && cell[1] == 'x' ? strlen(cell + 2) : 1;
    unsigned char *into = (unsigned char *)bytes;
    if (digits % 2 || digits / 2 > room)
        return -1;
    for (size_t i = 0; i < digits / 2; i++) {
        int high = bb_nibble(cell[2 + 2 * i]), low = bb_nibble(cell[3 + 2 * i]);
        if (high < 0 || low < 0)
            return -1;
        into[i] = (unsigned char)(high << 4 | low);
    }
    return (int64_t)(digits / 2);
}
static inline char *bb_cell_time(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                 size_t column)
{
    return bb_cell(rq, rows, row, column) ? bb_time_text(rq, bb_cell_int(rq, rows, row, column))
                                          : NULL;
}
static inline size_t bb_cell_ints(const char *cell, int64_t *into)
{
    size_t count = 0;
    for (const char *at = cell; at && (*at == '{' || *at == ',') && at[1] != '}';) {
        char *end;
        int64_t number = strtoll(at + 1, &end, 10);
        if (into)
            into[count] = number;
        count++;
        at = end;
    }
    return count;
}
enum bb_column_type {
    BB_COLUMN_TEXT = 1,
    BB_COLUMN_INT,
    BB_COLUMN_ID,
    BB_COLUMN_NUMBER,
    BB_COLUMN_BOOL,
    BB_COLUMN_TIME,
    BB_COLUMN_JSON
};
struct bb_column {
    const char *name;
    enum bb_column_type type;
    size_t column;
};
static inline json_t *bb_cell_json(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                   size_t column, enum bb_column_type type)
{
    const char *cell = bb_cell(rq, rows, row, column);
    if (!cell)
        return json_null();
    int64_t number = bb_cell_int(rq, rows, row, column);
    switch (type) {
    case BB_COLUMN_INT:
        return json_integer(number);
    case BB_COLUMN_ID:
        return number ? json_integer(number) : json_null();
    case BB_COLUMN_NUMBER:
        return json_real(strtod(cell, NULL));
    case BB_COLUMN_BOOL:
        return json_boolean(number != 0);
    case BB_COLUMN_TIME:
        return json_string(bb_time_text(rq, number));
    case BB_COLUMN_JSON:
        return bb_json_read(rq, cell);
    default:
        return json_string(cell);
    }
}
static inline json_t *bb_row_add(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                 const struct bb_column *columns, size_t count, json_t *object)
{
    for (size_t i = 0; i < count && object; i++) {
        json_t *value = bb_cell_json(rq, rows, row, columns[i].column, columns[i].type);
        if (json_object_set_new(object, columns[i].name, value) < 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}
static inline json_t *bb_row_json(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                  const struct bb_column *columns, size_t count)
{
    return bb_row_add(rq, rows, row, columns, count, json_object());
}
#define BB_ROW_ADD(rq,rows,row,columns,object) \
    bb_row_add(rq, rows, row, columns, sizeof(columns) / sizeof((columns)[0]), object)
#define BB_ROW_JSON(rq,rows,row,columns) BB_ROW_ADD(rq, rows, row, columns, json_object())
static inline int bb_notify(struct bb_request *rq, struct bb_tx *tx, const char *channel,
                            const char *payload)
{
    static const struct bb_sql notify = {"SELECT pg_notify($1::text, $2::text)", 0};
    const struct bb_value values[] = {bb_t(channel), bb_t(payload)};
    if (!tx)
        return bb_query(rq, &notify, values, 2) ? 0 : -1;
    return bb_add(rq, tx, &notify, values, 2) < 0 ? -1 : 0;
}
static inline void bb_json_drop(void *json)
{
    json_decref((json_t *)json);
}
static inline json_t *bb_json_hold(struct bb_request *rq, json_t *json)
{
    if (json)
        bb_defer(rq, bb_json_drop, json);
    return json;
}
static inline int bb_no_memory(struct bb_request *rq)
{
    return bb_fail_text(rq, 503, "Out of memory");
}
static inline int bb_sleep(struct bb_request *rq, int64_t ms)
{
    struct bb_completion *completion = bb_completion(rq);
    if (!completion)
        return -1;
    bb_completion_wait(rq, completion, ms);
    bb_completion_signal(rq->host, completion);
    return 0;
}
enum {
    BB_PACE_WINDOW_MS = 200,
    BB_PACE_BUSY = 20
};
struct bb_pace {
    int64_t piece_ms, window_ms;
    uint64_t answered;
    bool busy;
};
static inline bool bb_pace(struct bb_request *rq, struct bb_pace *pace, int64_t most_ms)
{
    int64_t now = bb_now_ms(rq->host), passed = now - pace->window_ms;
    int64_t pause = pace->piece_ms ? 2 * (now - pace->piece_ms) : 0;
    uint64_t answered = bb_answered(rq);
    if (pace->piece_ms && passed >= BB_PACE_WINDOW_MS)
        pace->busy = (int64_t)(answered - pace->answered) * 1000 >= BB_PACE_BUSY * passed;
    if (!pace->piece_ms || passed >= BB_PACE_WINDOW_MS) {
        pace->window_ms = now;
        pace->answered = answered;
    }
    if (pace->busy && pause > 0)
        bb_sleep(rq, pause < most_ms ? pause : most_ms);
    pace->piece_ms = bb_now_ms(rq->host);
    return pace->busy;
}
#define BB_BLANKS " \t\r\n"
static inline char *bb_trimmed(struct bb_request *rq, const char *text)
{
    text += strspn(text, BB_BLANKS);
    size_t length = strlen(text);
    while (length && strchr(BB_BLANKS, text[length - 1]))
        length--;
    char *copy = (char *)bb_alloc(rq, length + 1);
    memcpy(copy, text, length);
    return copy;
}
static inline char *bb_random_hex(struct bb_request *rq, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char *text = (unsigned char *)bb_alloc(rq, 2 * bytes + 1);
    if (bb_random(rq->host, text + bytes, bytes))
        return NULL;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = text[bytes + i];
        text[2 * i] = (unsigned char)digits[byte >> 4];
        text[2 * i + 1] = (unsigned char)digits[byte & 15];
    }
    text[2 * bytes] = '\0';
    return (char *)text;
}
#endif
