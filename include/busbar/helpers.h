/*
 * Helpers that most modules need: they reply with pages of a list, and convert rows and cells to
 * JSON, bytes, numbers and times. They use only the functions of request.h and sql.h.
 */
#ifndef BUSBAR_HELPERS_H
#define BUSBAR_HELPERS_H

#include <stdlib.h>
#include <string.h>

#include <busbar/sql.h>

/* SQL expressions for a time as milliseconds since 1970 (for bb_cell_time()), and as API text. */
#define BB_SQL_MS(column) "floor(extract(epoch FROM " column ") * 1000)::bigint"
#define BB_SQL_TIME(column)                                                                        \
    "to_char(" column " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"

/* Appends the item and takes ownership of both. Returns NULL on failure, or if one is NULL. */
static inline json_t *bb_append(json_t *array, json_t *item)
{
    if (json_array_append_new(array, item) == 0)
        return array;
    json_decref(array);
    return NULL;
}

/* Converts a row to JSON, which the caller owns. Returns NULL if memory ran out. */
typedef json_t *bb_item(struct bb_request *rq, const struct bb_rows *rows, size_t row);

/*
 * Answers with 200 and an array of the first `count` rows. `next` is the cursor for the Link to the
 * next page (NULL: this is the last page). Returns the status of the response.
 */
static inline int bb_reply_page(struct bb_request *rq, const struct bb_rows *rows, size_t count,
                                const char *next, bb_item *item)
{
    if (next && bb_reply_next(rq, next) < 0)
        return bb_failed(rq);
    json_t *list = json_array();

    for (size_t row = 0; list && row < count; row++) {
        list = bb_append(list, item(rq, rows, row));
        bb_yield(rq);
    }
    return bb_reply(rq, 200, list);
}

/*
 * Sets *count to the number of rows of this page. If there is a next page, adds the Link to it,
 * with column `key` of this page's last row as the cursor. The statement must select up to `limit`
 * + 1 rows, because the additional row shows that there is a next page. Returns 0, or -1 (then
 * `return bb_failed(rq)`).
 */
static inline int bb_page(struct bb_request *rq, const struct bb_rows *rows, size_t limit,
                          size_t key, size_t *count)
{
    *count = bb_count(rq, rows);
    if (*count <= limit)
        return 0;
    *count = limit;
    return bb_reply_next(rq, bb_cell(rq, rows, limit - 1, key));
}

/* Answers with bb_reply_page() for the rows of bb_page(). */
static inline int bb_reply_rows(struct bb_request *rq, const struct bb_rows *rows, size_t limit,
                                size_t key, bb_item *item)
{
    size_t count;

    if (bb_page(rq, rows, limit, key, &count) < 0)
        return bb_failed(rq);
    return bb_reply_page(rq, rows, count, NULL, item);
}

/* Returns the value of a lower-case hexadecimal digit; -1 if it is not one. */
static inline int bb_nibble(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/*
 * Decodes a bytea cell such as "\x00ff" into a buffer of `room` bytes. Returns the number of bytes;
 * -1 if the cell is NULL, not a bytea, or too long.
 */
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

/* Formats a cell of BB_SQL_MS() with bb_time_text(). Returns NULL for SQL's null. */
static inline char *bb_cell_time(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                 size_t column)
{
    return bb_cell(rq, rows, row, column) ? bb_time_text(rq, bb_cell_int(rq, rows, row, column))
                                          : NULL;
}

/* Stores the elements of a bigint[] cell in `into`; both may be NULL. Returns the element count. */
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

/*
 * Converts a cell to the JSON type of a field of the reply. SQL's null becomes JSON's null with
 * every type; a cell of BB_TIME must come from BB_SQL_MS(). The caller owns the result. Returns
 * NULL if memory ran out or bb_json_read() failed.
 */
static inline json_t *bb_cell_json(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                   size_t column, enum bb_type type)
{
    const char *cell = bb_cell(rq, rows, row, column);

    if (!cell)
        return json_null();
    int64_t number = bb_cell_int(rq, rows, row, column);

    switch (type) {
    case BB_INT:
        return json_integer(number);
    case BB_NUMBER:
        return json_real(strtod(cell, NULL));
    case BB_BOOL:
        return json_boolean(number != 0);
    case BB_TIME:
        return json_string(bb_time_text(rq, number));
    case BB_OBJECT:
    case BB_LIST:
    case BB_ANY:
        return bb_json_read(rq, cell);
    default:
        return json_string(cell);
    }
}

/*
 * Creates an object with the members that `fields` describe. Their values are the cells of a row,
 * beginning with `column`, in the order of `fields`. Returns NULL if bb_cell_json() failed; pass
 * this NULL to bb_reply(), which then answers with 503 or 500.
 */
static inline json_t *bb_row_fields(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                    size_t column, const struct bb_field *fields, size_t count)
{
    json_t *object = json_object();

    for (size_t i = 0; i < count && object; i++) {
        json_t *value = bb_cell_json(rq, rows, row, column + i, fields[i].type);

        if (json_object_set_new(object, fields[i].name, value) < 0) {
            json_decref(object);
            object = NULL;
        }
    }
    return object;
}

/* Like bb_row_fields() with a static array of fields. */
#define BB_ROW_FIELDS(rq, rows, row, column, fields)                                               \
    bb_row_fields(rq, rows, row, column, fields, sizeof(fields) / sizeof((fields)[0]))

/*
 * Returns an array of the first `count` rows, each as bb_row_fields() converts it. The caller owns
 * the array. Returns NULL if bb_row_fields() does. May park, because it calls bb_yield().
 */
static inline json_t *bb_rows_fields(struct bb_request *rq, const struct bb_rows *rows,
                                     size_t count, size_t column, const struct bb_field *fields,
                                     size_t members)
{
    json_t *list = json_array();

    for (size_t row = 0; list && row < count; row++) {
        list = bb_append(list, bb_row_fields(rq, rows, row, column, fields, members));
        bb_yield(rq);
    }
    return list;
}

/* Answers with the rows that bb_page() returns, each converted by bb_row_fields() from column 0. */
static inline int bb_reply_fields(struct bb_request *rq, const struct bb_rows *rows, size_t limit,
                                  size_t key, const struct bb_field *fields, size_t members)
{
    size_t count;

    if (bb_page(rq, rows, limit, key, &count) < 0)
        return bb_failed(rq);
    return bb_reply(rq, 200, bb_rows_fields(rq, rows, count, 0, fields, members));
}

/*
 * Notifies a channel of all hosts. The notification is part of the transaction `tx` and is sent on
 * commit; if `tx` is NULL, it is sent immediately (parks). Returns 0, or -1 (then `return
 * bb_failed(rq)`).
 */
static inline int bb_notify(struct bb_request *rq, struct bb_tx *tx, const char *channel,
                            const char *payload)
{
    /* BB_SQL_LONG, because a NOTIFY waits for other commits, which may wait for a standby */
    static const struct bb_sql notify = {"SELECT pg_notify($1::text, $2::text)",
                                         BB_SQL_WRITE | BB_SQL_LONG};
    const struct bb_value values[] = {bb_t(channel), bb_t(payload)};

    if (!tx)
        return bb_query(rq, &notify, values, 2) ? 0 : -1;
    return bb_add(rq, tx, &notify, values, 2) < 0 ? -1 : 0;
}

/* Calls json_decref(). Has the type that bb_defer() needs. */
static inline void bb_json_drop(void *json)
{
    json_decref((json_t *)json);
}

/* Takes ownership of `json`, frees it with the request's memory, and returns it. May be NULL. */
static inline json_t *bb_json_hold(struct bb_request *rq, json_t *json)
{
    if (json)
        bb_defer(rq, bb_json_drop, json);
    return json;
}

/*
 * These functions build JSON that is freed at the end of the request. If memory runs out, or an
 * argument is NULL because memory ran out earlier, they end the request with 503. bb_hold() takes a
 * new value and returns it; bb_push() and bb_set() take an item of an array or object.
 */
static inline json_t *bb_hold(struct bb_request *rq, json_t *json)
{
    if (!json)
        bb_alloc(rq, SIZE_MAX); /* always fails, which ends the request */
    return bb_json_hold(rq, json);
}

static inline void bb_push(struct bb_request *rq, json_t *array, json_t *item)
{
    if (json_array_append_new(array, item))
        bb_alloc(rq, SIZE_MAX);
}

static inline void bb_set(struct bb_request *rq, json_t *object, const char *name, json_t *item)
{
    if (json_object_set_new(object, name, item))
        bb_alloc(rq, SIZE_MAX);
}

/* Answers with 503 because memory ran out. If creating JSON failed, pass NULL to bb_reply(). */
static inline int bb_no_memory(struct bb_request *rq)
{
    return bb_fail_text(rq, 503, "Out of memory");
}

/* Parks for `ms` milliseconds, at most until the deadline. Returns 0, or -1 if out of memory. */
static inline int bb_sleep(struct bb_request *rq, int64_t ms)
{
    struct bb_completion *completion = bb_completion(rq);

    if (!completion)
        return -1;
    bb_completion_wait(rq, completion, ms); /* nothing signals the completion earlier */
    bb_completion_signal(rq->host, completion);
    return 0;
}

enum {
    BB_PACE_WINDOW_MS = 200, /* the period over which bb_pace() counts requests */
    BB_PACE_BUSY = 20        /* requests per second from which on the host counts as busy */
};

/* The state of bb_pace(). Initialize it with zeros; set `busy` if the host was busy recently. */
struct bb_pace {
    int64_t piece_ms, window_ms; /* when the current piece began, and when the window began */
    uint64_t answered;           /* requests that the host had answered when the window began */
    bool busy;                   /* whether the host was busy in the last window */
};

/*
 * Call this between two pieces of background work. While the host is busy with requests, bb_pace()
 * parks for twice the duration of the last piece, up to `most_ms`, so that background work uses a
 * third of the time; otherwise it returns at once. If it returns true, the host is busy; then make
 * the next piece small. The first call never parks.
 */
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

/* The characters that bb_trimmed() removes, for strspn() and similar functions. */
#define BB_BLANKS " \t\r\n"

/* Copies a text to the request's memory, without blanks at its start and end. */
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

/* Returns `bytes` random bytes in hexadecimal, in the request's memory; NULL on failure. */
static inline char *bb_random_hex(struct bb_request *rq, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char *text = (unsigned char *)bb_alloc(rq, 2 * bytes + 1);

    /* The random bytes are in the second half, so that no digit overwrites a byte before it is
     * read. */
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
