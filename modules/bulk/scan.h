/*
 * Scans a CSV file once, as a stream. Finds out whether it is CSV, its separator, header and number
 * of rows, and where it can be cut into parts of whole rows. Time is linear; memory does not grow
 * with the rows' texts. Also finds rows that contradict each other. The functions run on a pool's
 * thread, because they wait for the disk or take long.
 */
#ifndef BULK_SCAN_H
#define BULK_SCAN_H

#include <jansson.h>

#include "modules/bulk/reader.h"

enum {
    SCAN_PART_BYTES = 262144, /* a part ends with the row that reaches this size */
    SCAN_HEADER_BYTES = 16384
};

struct scan_part {
    size_t begin, end;   /* in the file */
    int64_t first, last; /* numbers of rows, from 1; blank rows count */
    size_t rows;         /* without blank rows */
};

struct scan {
    /* Set by the caller. */
    const char *path;
    size_t part_rows; /* maximum rows in a part */
    size_t rows_max;
    /* Known columns identify the header line. NULL: any first line is a header. */
    bool (*is_column)(const void *type, const char *name);
    const void *type;
    const char *names; /* of the known columns for a message, such as "externalId, siteName" */
    /* Results. */
    int status; /* 0, or the status of the response, with the reason in `why` */
    char why[1200];
    char separator;
    json_t *header; /* names of the columns, without invisible characters */
    /* For columns without a name, the first row with a value; NULL: all columns have names. */
    int64_t *unnamed;
    struct scan_part *parts;
    size_t part_count;
    size_t rows;
};

void scan_run(void *scan);
void scan_free(struct scan *scan);

/* Removes a spreadsheet's guard in place: ="5414" becomes 5414. */
void scan_unguard(char *text);

/* Returns the separator of a header line: the most frequent of , ; tab and | outside of quotes. */
char scan_separator(const char *bytes, size_t length);

/* Reads a part of a file completely. Returns 0, or -1. */
struct scan_read {
    const char *path;
    size_t begin, length;
    char *bytes; /* buffer of the caller */
    int failed;
};
void scan_read(void *read);

/* A name that a row reserves for a period. It is hashed; accidental collisions do not occur. */
struct scan_claim {
    uint64_t name;
    int64_t from, until;
    int32_t number;  /* of the row */
    int32_t column;  /* the column for a problem; -1: no column */
    int32_t against; /* the earlier row that this one contradicts; or 0 */
};

/* Keeps only the claims that contradict an earlier row of the file, in the order of the rows. */
struct scan_claims {
    struct scan_claim *list;
    size_t count;
};
void scan_contradictions(void *claims);

#endif
