/*
 * What most modules do with rows: pages of a list, rows as JSON, cells that are bytes or numbers,
 * times. All of it is made of the functions of request.h and sql.h.
 */
#ifndef BUSBAR_HELPERS_H
#define BUSBAR_HELPERS_H

#include <stdlib.h>
#include <string.h>

#include <busbar/sql.h>

/* SQL: a time column as milliseconds since 1970 (for bb_cell_time()), and as the API writes it. */
#define BB_SQL_MS(column) "floor(extract(epoch FROM " column ") * 1000)::bigint"
#define BB_SQL_TIME(column)                                                                        \
    "to_char(" column " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"

/* A row as JSON, given; NULL: no memory. */
typedef json_t *bb_item(struct bb_request *rq, const struct bb_rows *rows, size_t row);

/*
 * Answers 200 with an array of the first `count` rows. `next` (NULL: this page is the last one) is
 * the cursor of the Link to the next page. Returns the status of the answer.
 */
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

/*
 * The same for rows that were asked for with a limit of `limit` + 1: the row more shows that there
 * is a next page. The cursor is the cell `key` of the page's last row.
 */
static inline int bb_reply_rows(struct bb_request *rq, const struct bb_rows *rows, size_t limit,
                                size_t key, bb_item *item)
{
    size_t count = bb_count(rq, rows);
    bool more = count > limit;

    if (more)
        count = limit;
    return bb_reply_page(rq, rows, count, more ? bb_cell(rq, rows, count - 1, key) : NULL, item);
}

/* One hexadecimal digit of PostgreSQL's; -1: it is none. */
static inline int bb_nibble(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The bytes of a bytea ("\x00ff"; NULL: null) into `room` bytes: how many; -1: none, or too many.
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

/* A cell of BB_SQL_MS() as the API writes times, in the request's memory; NULL: null. */
static inline char *bb_cell_time(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                 size_t column)
{
    return bb_cell(rq, rows, row, column) ? bb_time_text(rq, bb_cell_int(rq, rows, row, column))
                                          : NULL;
}

/* The numbers of a bigint[] ("{1,2}"; NULL: null) into `into` (NULL: nowhere); returns how many. */
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

/* How a cell becomes JSON. SQL's null is JSON's, whatever the type. */
enum bb_column_type {
    BB_COLUMN_TEXT = 1,
    BB_COLUMN_INT,
    BB_COLUMN_ID, /* a number; 0 is null, too */
    BB_COLUMN_NUMBER,
    BB_COLUMN_BOOL,
    BB_COLUMN_TIME, /* of BB_SQL_MS() */
    BB_COLUMN_JSON  /* of json, jsonb, or text that holds such */
};

/* A member of an object, and the cell that it is made of. */
struct bb_column {
    const char *name;
    enum bb_column_type type;
    size_t column;
};

/* A cell as JSON, given; NULL: no memory, or what bb_json_read() says. */
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

/*
 * Adds cells of a row to an object, taken, in the order of the table; members of the same names are
 * replaced. The object, given; NULL: it was NULL, or what bb_cell_json() says. Then bb_reply()
 * answers 503 as for any JSON that got no memory.
 */
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

/* A row as an object of these members. */
static inline json_t *bb_row_json(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                                  const struct bb_column *columns, size_t count)
{
    return bb_row_add(rq, rows, row, columns, count, json_object());
}

/* The two for a static array of columns. */
#define BB_ROW_ADD(rq, rows, row, columns, object)                                                 \
    bb_row_add(rq, rows, row, columns, sizeof(columns) / sizeof((columns)[0]), object)
#define BB_ROW_JSON(rq, rows, row, columns) BB_ROW_ADD(rq, rows, row, columns, json_object())

/*
 * Tells a channel: with the transaction, whose commit all hosts hear; or, where it is NULL, by
 * itself (parks). 0, or -1 (then `return bb_failed(rq)`).
 */
static inline int bb_notify(struct bb_request *rq, struct bb_tx *tx, const char *channel,
                            const char *payload)
{
    static const struct bb_sql notify = {"SELECT pg_notify($1::text, $2::text)", 0};
    const struct bb_value values[] = {bb_t(channel), bb_t(payload)};

    if (!tx)
        return bb_query(rq, &notify, values, 2) ? 0 : -1;
    return bb_add(rq, tx, &notify, values, 2) < 0 ? -1 : 0;
}

/* Gives up a value, as bb_defer() calls it. */
static inline void bb_json_drop(void *json)
{
    json_decref((json_t *)json);
}

/* A value, taken, that lives as long as the request's memory from here on. NULL stays NULL. */
static inline json_t *bb_json_hold(struct bb_request *rq, json_t *json)
{
    if (json)
        bb_defer(rq, bb_json_drop, json);
    return json;
}

/* Answers 503: for memory that is not JSON's; bb_reply() says by itself that JSON got none. */
static inline int bb_no_memory(struct bb_request *rq)
{
    return bb_fail_text(rq, 503, "Out of memory");
}

/* Parks for so many milliseconds, not beyond the deadline. 0; or -1 at once: no memory. */
static inline int bb_sleep(struct bb_request *rq, int64_t ms)
{
    struct bb_completion *completion = bb_completion(rq);

    if (!completion)
        return -1;
    bb_completion_wait(rq, completion, ms); /* nobody opens it meanwhile */
    bb_completion_signal(rq->host, completion);
    return 0;
}

enum {
    BB_PACE_WINDOW_MS = 200, /* over which bb_pace() counts requests */
    BB_PACE_BUSY = 20        /* a second, from which on the host is busy with them */
};

/* The pace of work in the background; zeroed at first, but for `busy`. */
struct bb_pace {
    int64_t piece_ms, window_ms; /* when its piece began, and the window */
    uint64_t answered;           /* how many requests the host had answered when the window began */
    bool busy;                   /* the host answers requests, as far as is known */
};

/*
 * Between two pieces of work in the background: while the host is busy with requests it parks for
 * twice as long as the last piece took, so that the work has a third of the time and who waits for
 * an answer the rest; else it returns at once. True: the host is busy, and the next piece had
 * better be small. `most_ms` bounds the pause. The first call only begins the first piece. Since
 * minor 9.
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

/* What bb_trimmed() takes away, for strspn() and the like. */
#define BB_BLANKS " \t\r\n"

/* A copy of the text, in the request's memory, without the blanks around it. */
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

/* As many random bytes in hexadecimal, in the request's memory. NULL: there are none. */
static inline char *bb_random_hex(struct bb_request *rq, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char *text = (unsigned char *)bb_alloc(rq, 2 * bytes + 1);

    /* Random bytes lie in the second half, where a digit never goes before its byte is read. */
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
