/*
 * Scans a CSV file once, as a stream: whether it is CSV, its separator and header, its number of
 * rows, and where it can be cut into parts of whole rows. Blocks on the disk, so run it on a pool's
 * thread. Time is linear; memory does not grow with the rows' texts.
 */
#ifndef BULK_SCAN_H
#define BULK_SCAN_H

#include "modules/bulk/csv/reader.h"

enum { SCAN_PART_BYTES = 262144 }; /* a part ends with the row that reaches this size */

struct scan_part {
    size_t begin, end;   /* in the file */
    int64_t first, last; /* numbers of rows; 1 is the first row of data; blank rows count */
    size_t rows;         /* without blank rows */
};

enum { SCAN_HEADER_BYTES = 16384 };

/* The known columns, which identify a header line. */
struct scan_columns {
    bool (*is_column)(const void *arg, const char *name);
    const void *arg;
    const char *names; /* for a message, such as "externalId, siteName" */
};

struct scan {
    const char *path; /* set by the caller, like the next three */
    size_t part_rows; /* maximum rows in a part */
    size_t rows_max;
    const struct scan_columns *known; /* NULL: any first line is a header */
    int status; /* 0, or the status of the response, with the reason in `why` */
    char why[1200];
    char separator;
    char **header; /* names of the columns, without invisible characters */
    size_t columns;
    int64_t
        *unnamed; /* per column: the first row with a value in a column without a name; 0: none */
    bool some_unnamed;
    struct scan_part *parts;
    size_t part_count, part_room;
    size_t rows;
};

void scan_run(void *scan);
void scan_free(struct scan *scan);

/* Removes a spreadsheet's guard in place: ="5414" becomes 5414. */
void scan_unguard(char *text);

/* Returns the separator of a header line: the most frequent of , ; tab and | outside of quotes. */
char scan_separator(const char *bytes, size_t length);

/* Reads part of a file as a whole. Returns 0, or -1. Blocks. */
struct scan_read {
    const char *path;
    size_t begin, length;
    char *bytes; /* buffer of the caller */
    int failed;
};
void scan_read(void *arg);

#endif
