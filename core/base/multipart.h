/*
 * multipart/form-data (RFC 7578, 2046), as a stream: a pure state machine that is fed pieces of any
 * size, cut anywhere, and calls back with parts and their data. It keeps the headers of the part
 * that is being read, up to MULTIPART_HEADERS_MAX bytes, and no data.
 *
 * Lines end with CR LF. What stands before the first boundary and behind the last is thrown away. A
 * line that only begins like the boundary is data. Header lines may be folded. Of the headers only
 * Content-Disposition and Content-Type are looked at; a part must have a name, and must be neither
 * nested nor in a transfer encoding. Any thread, one at a time.
 */
#ifndef CORE_MULTIPART_H
#define CORE_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

#define MULTIPART_BOUNDARY_MAX 70
#define MULTIPART_HEADERS_MAX 32768

/* The head of a part; borrowed until the callback returns. Texts are as sent, of any bytes but
 * controls. */
struct multipart_part {
    const char *name;
    const char *filename; /* NULL: the part is no file; filename* goes before filename */
    const char *type;     /* of Content-Type, with its parameters; NULL: none */
};

/* Each returns 0, or -1 to end the parsing. */
struct multipart_calls {
    int (*part)(void *arg, const struct multipart_part *part);
    int (*data)(void *arg, const char *bytes, size_t length);
    int (*end)(void *arg); /* of the part */
};

struct multipart {
    const struct multipart_calls *calls;
    void *arg;
    int state;
    bool in_part;   /* data is a part's, not the preamble */
    bool has_part;  /* one has begun */
    size_t matched; /* of the delimiter */
    size_t implied; /* of these: CR LF that stood before the data and is none of it */
    char delimiter[MULTIPART_BOUNDARY_MAX + 5]; /* CR LF - - boundary */
    size_t delimiter_length;
    char held[64]; /* what followed the delimiter and may be data after all */
    size_t held_length;
    char *headers; /* MULTIPART_HEADERS_MAX bytes, of malloc */
    size_t headers_length, line_start;
    const char *problem; /* why the parsing ended; NULL: a callback did */
};

/*
 * The boundary of a Content-Type, if this is multipart/form-data. 1 with it in `boundary`; 0: it is
 * of another type; -1: it is, and its boundary is missing or not valid; -2: there is no memory.
 */
int multipart_boundary(const char *content_type, char boundary[MULTIPART_BOUNDARY_MAX + 1]);

/* 0; or -1 without memory. `calls` is borrowed. */
int multipart_init(struct multipart *multipart, const char *boundary,
                   const struct multipart_calls *calls, void *arg);

void multipart_free(struct multipart *multipart);

/* Feeds a piece. 0; or -1: multipart->problem. Not to be called after a failure. */
int multipart_feed(struct multipart *multipart, const char *bytes, size_t length);

/* Whether the last boundary has come: without it parts may be missing. */
bool multipart_complete(const struct multipart *multipart);

/* multipart_head.c: the head of a part from its header lines. NULL, or what is wrong. */
const char *multipart_head(char *lines, struct multipart_part *part);

/*
 * Takes the next parameter of a header's value, behind the first ';' (*at): its name in lower case
 * and its value, unquoted, in place. 1; 0: there is none; -1: malformed.
 */
int multipart_parameter(char **at, char **name, char **value);

#endif
