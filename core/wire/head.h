/*
 * The head of a request, judged on the bytes that came: the request line and the fields as RFC 9112
 * has them, and nothing that a proxy in front could read differently. A line ends with CR LF, no
 * line is folded, a name is a token with the colon right behind it, no control character is in a
 * value, one Host is there and valid, one length at most.
 *
 * A head is read in place while it arrives: the text gets a NUL behind each part. Offsets stand for
 * pointers, so the text may be moved. One thread at a time; nothing is allocated but the copy that
 * head_keep() makes.
 */
#ifndef CORE_HEAD_H
#define CORE_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"

enum {
    HEAD_BYTES_MAX = 16 * 1024, /* with the empty line at its end */
    HEAD_FIELDS_MAX = 256
};

struct head_field {
    uint16_t name, name_length, value, value_length; /* in the text; values without outer blanks */
};

struct head {
    int status;         /* 0: it is fine; else the status of the answer that refuses it */
    const char *reason; /* static text for the client; NULL with status 0 */
    bool split;         /* method and target are set, also of some heads that are refused */
    uint16_t method;
    uint16_t target; /* of "http://host/path" only "/path" */
    uint8_t minor;   /* HTTP/1.minor */
    bool chunked;    /* there is a body, of chunks */
    bool expects;    /* the client waits for 100 (Continue) before it sends the body */
    bool closes;     /* it asks for the end of the connection */
    bool keeps;      /* of HTTP/1.0: it asks for the opposite */
    int64_t length;  /* Content-Length; -1: none */
    char *text;
    struct head_field *fields;
    size_t count;
};

struct head_reading {
    struct head head; /* `text` is NULL, for it may move; see head_keep() */
    size_t at;        /* so many bytes have been judged; at the end, those of the head */
    size_t line;      /* where the line begins that is being judged */
    unsigned seen;    /* fields that may be there only once */
    bool absolute;    /* the target named a host */
    struct head_field fields[HEAD_FIELDS_MAX];
};

enum head_state { HEAD_PARTIAL, HEAD_WHOLE, HEAD_REFUSED };

void head_begin(struct head_reading *reading);

/* Goes on with the text, of which `length` bytes are there by now. */
enum head_state head_read(struct head_reading *reading, char *text, size_t length);

/* Refuses it for a reason of the caller's. */
enum head_state head_refuse(struct head_reading *reading, int status, const char *reason);

/* Copies what has been read to the arena. 0, or -1 without memory. */
int head_keep(const struct head_reading *reading, const char *text, struct arena *arena,
              struct head *into);

/* The value of the first field of this name, any case; NULL: there is none. */
const char *head_value(const struct head *head, const char *name);
/* The same of a field that may be there once: NULL where there are several. */
const char *head_sole_value(const struct head *head, const char *name);

/* A field line without its end: name and value are told apart and judged. NULL, or the reason. */
const char *head_field_split(const char *text, size_t from, size_t to, struct head_field *field);

/* head_rules.c. Whether it is a host with perhaps a port, as in Host and in absolute targets. */
bool head_host_valid(const char *host, size_t length);
/* Bytes at the start of text[0..length) that a token may have (RFC 9110, 5.6.2). */
size_t head_token_run(const char *text, size_t length);
/* Those that the value of a field may have: no control character except HTAB. */
size_t head_value_run(const char *text, size_t length);
/* Sets what the request line says, which is text[from..to). 0, or the head is refused. */
int head_request_line(struct head_reading *reading, char *text, size_t from, size_t to);

#endif
