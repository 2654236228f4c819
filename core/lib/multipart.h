/*
 * A streaming parser of multipart/form-data (RFC 7578, 2046): a state machine without I/O that
 * takes pieces of any size and calls back with parts and their data. It stores the headers of the
 * current part, up to MULTIPART_HEADERS_MAX bytes, and data that may turn out to be a delimiter.
 *
 * Lines end with CR LF. Text before the first boundary and after the last is discarded. A line that
 * only begins like the boundary is data. Header lines may be folded. Only the headers
 * Content-Disposition and Content-Type are used; a part must have a name, and must not be nested or
 * have a transfer encoding. Any thread, one at a time.
 */
#ifndef CORE_MULTIPART_H
#define CORE_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

#define MULTIPART_BOUNDARY_MAX 70
#define MULTIPART_PADDING_MAX 64 /* blanks after a boundary */
#define MULTIPART_HEADERS_MAX 32768

/*
 * The headers of a part, valid until the callback returns. Texts are as the client sent them, and
 * can contain any bytes except control characters.
 */
struct multipart_part {
    const char *name;
    const char *filename; /* NULL: not a file; filename* takes precedence over filename */
    const char *type;     /* Content-Type with its parameters; NULL: none */
};

/* Each returns 0, or -1 to stop parsing. */
struct multipart_calls {
    int (*part)(void *arg, const struct multipart_part *part);
    int (*data)(void *arg, const char *bytes, size_t length);
    int (*end)(void *arg); /* called at the end of each part */
};

struct multipart {
    const struct multipart_calls *calls;
    void *arg;
    enum { MULTIPART_DATA, MULTIPART_HEADERS, MULTIPART_EPILOGUE } state;
    bool in_part;                               /* data belongs to a part, not the preamble */
    bool has_part;                              /* at least one part was seen */
    char delimiter[MULTIPART_BOUNDARY_MAX + 4]; /* CR LF - - boundary */
    size_t delimiter_length;
    char *window;        /* MULTIPART_HEADERS_MAX bytes, from malloc(): input not yet passed on */
    size_t start, end;   /* range of the window that is in use */
    size_t implied;      /* bytes at `start` (CR LF) that can begin a delimiter but are not data */
    size_t line_start;   /* offset from `start` of the incomplete header line */
    const char *problem; /* why parsing stopped; NULL: a callback stopped it */
};

/*
 * Gets the boundary of a Content-Type. Returns 1 with `boundary`; 0 if the type is not
 * multipart/form-data; -1 if the boundary is missing or invalid; -2 if memory ran out.
 */
int multipart_boundary(const char *content_type, char boundary[MULTIPART_BOUNDARY_MAX + 1]);

/* Returns 0, or -1 if memory ran out. `calls` must outlive `multipart`. */
int multipart_init(struct multipart *multipart, const char *boundary,
                   const struct multipart_calls *calls, void *arg);

void multipart_free(struct multipart *multipart);

/* Parses the next bytes. Returns 0, or -1 with multipart->problem. Do not call it after -1. */
int multipart_feed(struct multipart *multipart, const char *bytes, size_t length);

/* Returns whether the final boundary has been seen; otherwise parts may be missing. */
bool multipart_complete(const struct multipart *multipart);

#endif
