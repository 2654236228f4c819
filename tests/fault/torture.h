/*
 * What a test shares with torture.so in a host that runs with LD_PRELOAD: numbers in a file that
 * both map. A counter above 0 is counted down by each call, and the call that brings it to 0 fails.
 * (libfaketime could move the clock, but does not come up together with jemalloc.)
 */
#ifndef TESTS_FAULT_TORTURE_H
#define TESTS_FAULT_TORTURE_H

#include <stdatomic.h>

#define TORTURE_FILE "TORTURE_FILE" /* the environment's name of the file's path */

struct torture {
    atomic_long allocations;  /* malloc, calloc, realloc, posix_memalign */
    atomic_long threads;      /* pthread_create */
    atomic_long spare_crypto; /* not 0: allocations of OpenSSL do not fail */
    atomic_long failed;       /* how many calls have failed so far */
    atomic_long clock_s;      /* seconds by which the wall clock is wrong */
};

/* Numbers of one's own for a host, and the environment that makes it heed them (rack.c). */
struct rack {
    struct torture *numbers;
    const char *const *environment;
};

struct rack rack_make(const char *name);

#endif
