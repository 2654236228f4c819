/* Splits the text of a schema into its steps. */
#ifndef CORE_MIGRATE_STEPS_H
#define CORE_MIGRATE_STEPS_H

#include <stddef.h>

/* A step of a schema; `sql` is borrowed from the text and not NUL-terminated. */
struct migrate_step {
    unsigned number;
    char title[96];
    const char *sql;
    size_t length;
    char checksum[65]; /* SHA-256 of its text without comments and white space, in hexadecimal */
};

/*
 * Finds the next step after *cursor, which is initially the schema's text. Returns 1 with *step
 * filled; 0 at the end; -1 with the reason in `why` if the text is malformed (text before step 1,
 * or steps not numbered 1, 2, 3…).
 */
int migrate_next(const char **cursor, unsigned expected, struct migrate_step *step, char *why,
                 size_t why_size);

#endif
