/*
 * Writes rows of CSV (RFC 4180) into a growing buffer. A text that a spreadsheet would read as a
 * formula gets a prefix, which csv_take_back() removes when an export is imported. Any thread.
 */
#ifndef COMMON_CSV_H
#define COMMON_CSV_H

#include <stdbool.h>
#include <stddef.h>

/* The table `reply` of a route that returns CSV; `shown` is an example of its response. */
#define CSV_REPLY(shown)                                                                           \
    BB_TABLE(((const struct bb_field[]){                                                           \
        {.name = ".", .type = BB_TEXT, .flags = BB_REQUIRED, .example = (shown)}}))

struct csv {
    char *bytes; /* free with csv_drop() */
    size_t length, room;
    char separator; /* set by the caller; 0 means a comma */
    bool failed;    /* out of memory; all further calls do nothing */
    bool begun;     /* the row has a cell */
};

/*
 * Appends a cell; NULL is an empty cell. Writes an apostrophe before = + - and @ (also full-width)
 * at the beginning of the text, and after a semicolon, comma, tab, line end or vertical bar,
 * because a spreadsheet may begin a cell there. Spaces and quotes before the character are skipped.
 * A text that begins with a tab or line end also gets an apostrophe. A plain number gets none.
 */
void csv_text(struct csv *csv, const char *text);

/*
 * Copies the text to `out` without the apostrophes that csv_text() adds. `out` may be `text`
 * itself, or NULL (nothing is copied). Returns whether the text has such an apostrophe.
 */
bool csv_take_back(char *out, const char *text);

/* Appends a cell unchanged. Use it only for numbers, times and fixed words. */
void csv_plain(struct csv *csv, const char *text);

void csv_end_row(struct csv *csv);
void csv_bytes(struct csv *csv, const char *bytes, size_t length);
void csv_drop(void *csv);

#endif
