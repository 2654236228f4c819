/* Rows of CSV (RFC 4180) as text in a buffer that grows. Pure; any thread. */
#ifndef BULK_WRITE_H
#define BULK_WRITE_H

#include <stdbool.h>
#include <stddef.h>

struct written {
    char *bytes;
    size_t length, room;
    char separator; /* set by the caller */
    bool begun;     /* the row has a cell */
    bool failed;    /* no memory: what follows is ignored */
};

/* A cell as it is, in quotes where it has to be; NULL is an empty one. */
void write_cell(struct written *written, const char *text);

/*
 * A cell of words of the service, which may repeat what somebody sent: an apostrophe stands before
 * each = + - @ that begins it, or follows what might end a cell, so that no spreadsheet runs it.
 */
void write_words(struct written *written, const char *text);

void write_end(struct written *written);
void write_bytes(struct written *written, const char *bytes, size_t length);
void write_free(struct written *written);

#endif
