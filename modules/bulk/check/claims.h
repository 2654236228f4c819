/*
 * What the rows of a file claim for themselves, and which of them contradict each other. Pure, but
 * for memory; any thread.
 */
#ifndef BULK_CLAIMS_H
#define BULK_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claim {
    uint64_t name[2];    /* a digest of it */
    int64_t from, until; /* both 0: for all time */
    int32_t number;      /* of the row */
    int32_t column;      /* that a problem is told of */
    int32_t against;     /* claims_judge(): the row that it contradicts; 0: none */
};

struct claims {
    struct claim *list;
    size_t count, room;
};

/* Room for so many, so that none is copied as they grow. -1: no memory, here and below. */
int claims_reserve(struct claims *claims, size_t count);
int claims_add(struct claims *claims, const char *name, struct claim claim);
void claims_free(struct claims *claims);

/* Sorts them, and says of each row which earlier one it contradicts. Arg: struct claims. */
void claims_judge(void *arg);

#endif
