/*
 * scan_run() reads a CSV file once, as a stream. It finds the separator, the header line and the
 * number of rows, and cuts the file into parts of whole rows. Its memory does not grow with the
 * rows' texts. scan_run(), scan_read() and scan_contradictions() run on a thread of a pool, because
 * they wait for the disk or take long.
 */
#ifndef BULK_SCAN_H
#define BULK_SCAN_H

#include <jansson.h>
#include <openssl/sha.h>

#include "modules/bulk/reader.h"

/* The separators that are found without a line sep=X. */
#define SCAN_SEPARATORS ",;\t|"

enum {
    SCAN_PART_BYTES = 262144, /* a part ends with the row that reaches this size */
    SCAN_HEADER_BYTES = 16384
};

struct scan_part {
    size_t begin, end;   /* positions in the file */
    int64_t first, last; /* row numbers from 1; blank rows have numbers, too */
    size_t rows;         /* without blank rows */
};

struct scan {
    /* Set by the caller. */
    const char *path;
    size_t part_rows; /* maximum rows in a part */
    size_t rows_max;
    /* Whether a name is a known column. NULL: any first line is accepted as the header. */
    bool (*is_column)(const void *type, const char *name);
    const void *type;
    const char *names; /* of the known columns for a message, such as "externalId, siteName" */
    /* Results. */
    int status; /* 0, or the status of the response, with the reason in `why` */
    char why[1200];
    char separator;
    json_t *header; /* names of the columns, without invisible characters */
    /* For each column without a name, the first row with a value in it. NULL: all have names. */
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

/* scan_read() reads `length` bytes at `begin`, or sets `failed`. */
struct scan_read {
    const char *path;
    size_t begin, length;
    char *bytes; /* buffer of the caller */
    int failed;
};
void scan_read(void *read);

/* A name that a row reserves for a period (struct bb_bulk_claim). */
struct scan_claim {
    unsigned char name[SHA256_DIGEST_LENGTH]; /* hash of the name */
    int64_t from, until;
    int32_t number;  /* of the row */
    int32_t column;  /* index of the column that a problem names; -1: none */
    int32_t against; /* number of an earlier row with an overlapping claim; or 0 */
};

/* scan_contradictions() keeps only claims that overlap a claim of an earlier row, sorted by row. */
struct scan_claims {
    struct scan_claim *list;
    size_t count;
};
void scan_contradictions(void *claims);

#endif
