/*
 * Writes rows of CSV (RFC 4180) that are safe to open in a spreadsheet, into a growing buffer, and
 * reverses this, so that an export can be imported. Pure; any thread.
 */
#ifndef COMMON_CSV_H
#define COMMON_CSV_H

#include <stdbool.h>
#include <stddef.h>

struct csv {
    char *bytes; /* free with csv_drop() */
    size_t length, room;
    char separator; /* set by the caller; 0: a comma */
    bool failed;    /* out of memory; all further calls do nothing */
    bool begun;     /* the row has a cell */
};

/*
 * Appends a cell; NULL is an empty one. Formulas get a leading apostrophe: = + - @, also as
 * full-width characters, and a tab or line end at the beginning of the text (white space and quotes
 * are skipped), or after a semicolon, comma, tab, line end or vertical bar, because a new cell may
 * begin there. A plain number stays unchanged.
 */
void csv_text(struct csv *csv, const char *text);

/* Removes, in place, the apostrophes that csv_text() adds. */
void csv_take_back(char *text);

/* Returns whether csv_take_back() would change the text. */
bool csv_is_defused(const char *text);

/* Appends a cell whose text was made by the service: a number, a time, a fixed word. */
void csv_plain(struct csv *csv, const char *text);

void csv_end_row(struct csv *csv);
void csv_bytes(struct csv *csv, const char *bytes, size_t length);
void csv_drop(void *csv);

#endif
