/*
 * Reading CSV (RFC 4180) as it comes, in pieces cut anywhere: libcsv, with bounds, the numbers that
 * rows have in a spreadsheet, and the places where they begin and end.
 *
 * A row of blanks only has a number, as in a spreadsheet, but is not reported. Spaces belong to
 * their cell. Lines end with CRLF, LF or CR; the last one need not end. Pure; any thread.
 */
#ifndef BULK_READER_H
#define BULK_READER_H

#include <csv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    READER_CELL_MAX = 32768, /* bytes; more than a spreadsheet's cell holds */
    READER_ROW_MAX = 262144,
    READER_COLUMNS_MAX = 1000,
    READER_WHY = 160
};

struct reader_row {
    int64_t number;    /* of its line: 0 is the first line that was read */
    size_t begin, end; /* where its bytes lie, with the end of the line */
    size_t count;
    const char *const *cells; /* end in NUL; valid while the row is told */
};

struct bulk_reader {
    struct csv_parser parser;
    int (*told)(void *arg, const struct reader_row *row); /* not 0: stop */
    void *arg;
    int64_t number;       /* of the line that is read */
    size_t fed, begin;    /* bytes so far, and where the row begins */
    bool begun, after_cr; /* the row has bytes; the byte before was CR */
    char *text;           /* of the row's cells */
    size_t length, room;
    size_t offsets[READER_COLUMNS_MAX];
    const char *cells[READER_COLUMNS_MAX];
    size_t count;
    bool full;            /* the row has something that can be seen */
    int stopped;          /* what `told` returned */
    char why[READER_WHY]; /* empty: nothing is wrong */
    bool starved;         /* what is wrong is that there was no memory */
};

/* 0; or -1 without memory. `number` of the first line. */
int bulk_reader_begin(struct bulk_reader *reader, char separator, int64_t number,
                      int (*told)(void *arg, const struct reader_row *row), void *arg);
void bulk_reader_free(struct bulk_reader *reader);

/* 0; -1 with the reason in `why`; or what `told` returned. */
int bulk_reader_feed(struct bulk_reader *reader, const char *bytes, size_t length);

/* The end of the text: the same. */
int bulk_reader_end(struct bulk_reader *reader);

#endif
