/* A row of CSV (RFC 4180) as text in a buffer that grows. Pure; any thread. */
#ifndef COMMON_CSV_H
#define COMMON_CSV_H

#include <stdbool.h>
#include <stddef.h>

struct csv {
    char *bytes; /* free() */
    size_t length, room;
    bool failed; /* no memory: what follows is ignored */
    bool begun;  /* the row has a cell */
};

/*
 * A cell; NULL is an empty one. What a spreadsheet would run as a formula gets an apostrophe in
 * front: = + - @, also as wide characters, a tab and an end of a line, where the text begins with
 * them (white space and quotes do not count), or what stands behind a semicolon, a comma, a tab, an
 * end of a line or a vertical bar, which may begin a cell of its own.
 */
void csv_text(struct csv *csv, const char *text);

/* A cell that the service made itself: a number, a time, a fixed word. */
void csv_plain(struct csv *csv, const char *text);

void csv_end_row(struct csv *csv);

#endif
