/*
 * Looking a file of CSV through, once, as a stream: whether it is one, its separator and header,
 * how many rows it has, and where it may be cut into parts of whole rows. Blocks on the disk: for a
 * thread of a pool. Time is linear, memory does not grow with the rows' texts.
 */
#ifndef BULK_SCAN_H
#define BULK_SCAN_H

#include "modules/bulk/csv/reader.h"

enum { SCAN_PART_BYTES = 262144 }; /* a part has so many, or its last row brings it over them */

struct scan_part {
    size_t begin, end;   /* in the file */
    int64_t first, last; /* numbers of rows; 1 is the first row of data, blank ones count */
    size_t rows;         /* that are not blank */
};

enum { SCAN_HEADER_BYTES = 16384 };

/* The known columns, by which a header line is recognized. */
struct scan_columns {
    bool (*is_column)(const void *arg, const char *name);
    const void *arg;
    const char *names; /* for a message: "externalId, siteName" */
};

struct scan {
    const char *path; /* set by the caller, as the next three */
    size_t part_rows; /* rows in a part, at most */
    size_t rows_max;
    const struct scan_columns *known; /* NULL: any first line is a header */
    int status;                       /* 0; or the status of the answer, with the reason in `why` */
    char why[1200];
    char separator;
    char **header; /* names of the columns, without what nobody sees */
    size_t columns;
    int64_t
        *unnamed; /* by column: the first row with a value in a column without a name; 0: none */
    bool some_unnamed;
    struct scan_part *parts;
    size_t part_count, part_room;
    size_t rows;
};

void scan_run(void *scan);
void scan_free(struct scan *scan);

/* Takes a spreadsheet's guard off, in place: ="5414" is 5414. */
void scan_unguard(char *text);

/* The separator of a header line: the most frequent of , ; tab and | outside of quotes. */
char scan_separator(const char *bytes, size_t length);

/* The part of a file, read whole: 0, or -1. Blocks. */
struct scan_read {
    const char *path;
    size_t begin, length;
    char *bytes; /* the caller's room */
    int failed;
};
void scan_read(void *arg);

#endif
