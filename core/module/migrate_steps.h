/* Splitting a schema's text into its steps. */
#ifndef CORE_MIGRATE_STEPS_H
#define CORE_MIGRATE_STEPS_H

#include <stddef.h>

/* A step of a schema; `sql` is borrowed from its text and not terminated. */
struct migrate_step {
    unsigned number;
    char title[96];
    const char *sql;
    size_t length;
    char checksum[65]; /* SHA-256 of its tokens, lower-case hexadecimal: comments and white space
                          do not count */
    char former_checksum[65]; /* of its text, as databases made before that have it */
};

/*
 * Finds the next step behind *cursor (start with the schema's text). 1 with *step filled; 0: no
 * more; -1: the text is malformed (text before step 1, numbers not 1, 2, 3…), reason in `why`.
 */
int migrate_next(const char **cursor, unsigned expected, struct migrate_step *step, char *why,
                 size_t why_size);

#endif
