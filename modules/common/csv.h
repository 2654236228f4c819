/*
 * Rows of CSV (RFC 4180) as text in a buffer that grows, safe to open in a spreadsheet; and the way
 * back, so that an export can be imported. Pure; any thread.
 */
#ifndef COMMON_CSV_H
#define COMMON_CSV_H

#include <stdbool.h>
#include <stddef.h>

struct csv {
    char *bytes; /* csv_drop() */
    size_t length, room;
    char separator; /* set by the caller; 0: a comma */
    bool failed;    /* no memory: all further calls do nothing */
    bool begun;     /* the row has a cell */
};

/*
 * Appends a cell; NULL is an empty one. Formulas get an apostrophe in front: = + - @, also as
 * full-width characters, a tab and an end of a line at the beginning of the text (white space and
 * quotes do not count), or after a semicolon, a comma, a tab, an end of a line or a vertical bar,
 * because a new cell may begin there. A plain number stays as it is.
 */
void csv_text(struct csv *csv, const char *text);

/* Takes the apostrophes out of a text, in place, that csv_text() puts into it. */
void csv_take_back(char *text);

/* Whether csv_take_back() would change the text. */
bool csv_is_defused(const char *text);

/* Appends a cell that the service made itself: a number, a time, a fixed word. */
void csv_plain(struct csv *csv, const char *text);

void csv_end_row(struct csv *csv);
void csv_bytes(struct csv *csv, const char *bytes, size_t length);
void csv_drop(void *csv);

#endif
