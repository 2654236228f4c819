/*
 * Reads CSV (RFC 4180) from pieces that may be cut anywhere. libcsv splits the cells; the reader
 * enforces limits, numbers the rows like spreadsheets, and reports where each row begins and ends.
 *
 * A row of blanks is counted, as in a spreadsheet, but not reported. Spaces are part of their cell.
 * Lines end with CRLF, LF or CR; the last line need not have an end. No side effects; any thread.
 */
#ifndef BULK_READER_H
#define BULK_READER_H

#include <csv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    READER_CELL_MAX = 32768, /* bytes; more than a spreadsheet's cell can hold */
    READER_ROW_MAX = 262144,
    READER_COLUMNS_MAX = 1000,
    READER_WHY = 160
};

struct reader_row {
    int64_t number;    /* starts at `number` of bulk_reader_begin(); blank rows are counted */
    size_t begin, end; /* positions; `end` is after the line end (of a CRLF: after the CR) */
    size_t count;
    const char *const *cells; /* NUL-terminated; valid only during the callback */
};

struct bulk_reader {
    struct csv_parser parser;
    int (*on_row)(void *arg, const struct reader_row *row); /* a result other than 0 stops */
    void *arg;
    int64_t number;    /* of the current line */
    size_t fed, begin; /* bytes fed so far; position of the row's first byte */
    int line_end;      /* the character that ended the previous line: CR or LF */
    char *text;        /* the cells of the current row, each with a NUL */
    size_t length;
    const char *cells[READER_COLUMNS_MAX];
    size_t count;
    bool full;            /* the row has a visible character */
    int stopped;          /* the last result of on_row() */
    char why[READER_WHY]; /* empty: no error */
    bool starved;         /* the error is lack of memory */
};

/* Begins to read; `number` is the number of the first line. Returns 0, or -1 if out of memory. */
int bulk_reader_begin(struct bulk_reader *reader, char separator, int64_t number,
                      int (*on_row)(void *arg, const struct reader_row *row), void *arg);
void bulk_reader_free(void *reader);

/* Returns 0, -1 with the reason in `why`, or the result of on_row() that stopped the reader. */
int bulk_reader_feed(struct bulk_reader *reader, const char *bytes, size_t length);

/* Call at the end of the text. Returns the same values as bulk_reader_feed(). */
int bulk_reader_end(struct bulk_reader *reader);

/*
 * Invisible characters are all kinds of white space, and Unicode's default ignorable characters,
 * which get into names when people copy from web pages and spreadsheets. blank_is() returns whether
 * a UTF-8 text has no visible character. blank_strip() removes white space from both ends of a text
 * and invisible characters everywhere, in place.
 */
bool blank_is(const char *text);
void blank_strip(char *text);

/* Returns the largest length, up to `most` bytes, at which a text can be cut between characters. */
size_t blank_cut(const char *text, size_t most);

#endif
