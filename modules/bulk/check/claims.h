/*
 * The names and periods that the rows of a file claim, and a check for rows that contradict each
 * other. No I/O; any thread.
 */
#ifndef BULK_CLAIMS_H
#define BULK_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claim {
    uint64_t name[2];    /* digest of the name */
    int64_t from, until; /* both 0: for all time */
    int32_t number;      /* of the row */
    int32_t column;      /* column that a problem names */
    int32_t against;     /* set by claims_judge(): the row that it contradicts; 0: none */
};

struct claims {
    struct claim *list;
    size_t count, room;
};

/*
 * Reserves room for this many claims, so that the list is never copied while it grows. Returns -1
 * if out of memory, like claims_add().
 */
int claims_reserve(struct claims *claims, size_t count);
int claims_add(struct claims *claims, const char *name, struct claim claim);
void claims_free(struct claims *claims);

/* Sorts the claims and sets for each the earlier row that it contradicts. `arg`: struct claims. */
void claims_judge(void *arg);

#endif
