/* The directory `incoming/` of a module, which has the files of requests in progress. */
#ifndef COMMON_INCOMING_H
#define COMMON_INCOMING_H

#include <stddef.h>
#include <time.h>

/*
 * For bb_offload(): deletes files older than `before` from `incoming/`. Requests leave files there
 * when their host dies. Blocks.
 */
struct incoming_sweep {
    const char *directory; /* the parent of `incoming/` */
    time_t before;
    size_t removed;
};
void incoming_sweep(void *sweep);

#endif
