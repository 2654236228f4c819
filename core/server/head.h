/*
 * Parses and checks the head of a request. The request line and the fields must follow RFC 9112,
 * and must not contain anything that a proxy in front could interpret differently. Lines end with
 * CR LF and are not folded, a name is a token directly followed by the colon, values contain no
 * control characters, there is exactly one valid Host, and at most one length.
 *
 * A head is parsed in place while it arrives: the parser writes a NUL after each part, and stores
 * offsets instead of pointers, so that the text can be moved. One thread at a time; only
 * head_keep() allocates memory.
 */
#ifndef CORE_HEAD_H
#define CORE_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/lib/arena.h"

enum {
    HEAD_BYTES_MAX = 16 * 1024, /* including the empty line at its end */
    HEAD_FIELDS_MAX = 256
};

struct head_field {
    uint16_t name, name_length, value, value_length; /* positions in `text`, without blanks */
};

struct head {
    int status;         /* 0: the head is valid; otherwise the status of the response */
    const char *reason; /* static text for the client; NULL with status 0 */
    bool split;         /* method and target are set, also for some refused heads */
    uint16_t method;
    uint16_t target; /* only "/path" if the client sent "http://host/path" */
    uint8_t minor;   /* HTTP/1.minor */
    bool chunked;    /* there is a body, in chunks */
    bool expects;    /* the client waits for 100 (Continue) before it sends the body */
    bool closes;     /* the client requests that the connection is closed */
    bool keeps;      /* HTTP/1.0: the client requests that the connection is kept open */
    int64_t length;  /* Content-Length; -1: none */
    char *text;
    struct head_field *fields;
    size_t count;
};

struct head_reading {
    struct head head; /* without `text`, whose bytes may move until head_keep() */
    size_t at;        /* number of bytes checked; at the end, the length of the head */
    size_t line;      /* start of the line being checked */
    unsigned seen;    /* which fields have occurred: bits of enum known in head.c */
    bool absolute;    /* the target contained a host */
    struct head_field fields[HEAD_FIELDS_MAX];
};

enum head_state { HEAD_REFUSED = -1, HEAD_PARTIAL, HEAD_WHOLE };

void head_begin(struct head_reading *reading);

/* Continues to parse the head in `text`, of which `length` bytes have arrived by now. */
enum head_state head_read(struct head_reading *reading, char *text, size_t length);

enum head_state head_refuse(struct head_reading *reading, int status, const char *reason);

/* Copies the head to *into, and its text and fields to the arena. Returns 0; -1: out of memory. */
int head_keep(const struct head_reading *reading, const char *text, struct arena *arena,
              struct head *into);

/* Returns the value of the first field with this name, ignoring case; NULL: there is none. */
const char *head_value(const struct head *head, const char *name);

/* Splits the line text[from..to), without CR LF, into name and value. Returns NULL or an error. */
const char *head_field_split(const char *text, size_t from, size_t to, struct head_field *field);

/* Returns how many bytes at the start of `text` are allowed in a token (RFC 9110, 5.6.2). */
size_t head_token_run(const char *text, size_t length);
/* Returns how many bytes at the start are allowed in a field's value: no controls except HTAB. */
size_t head_value_run(const char *text, size_t length);

#endif
