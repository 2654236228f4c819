/*
 * What a test shares with torture.so in a host that runs with LD_PRELOAD: numbers in a file that
 * both map. A counter above 0 is counted down by each call, and the call that brings it to 0 fails.
 * (libfaketime could move the clock, but does not come up together with jemalloc.)
 */
#ifndef TESTS_FAULT_TORTURE_H
#define TESTS_FAULT_TORTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#define TORTURE_FILE "TORTURE_FILE" /* the environment's name of the file's path */

struct torture {
    atomic_long allocations;  /* malloc, calloc, realloc, posix_memalign */
    atomic_long threads;      /* pthread_create */
    atomic_long spare_crypto; /* not 0: allocations of OpenSSL do not fail */
    atomic_long failed;       /* how many calls have failed so far */
    atomic_long clock_s;      /* seconds by which the wall clock is wrong */
    atomic_long syncs;        /* fsync: EIO */
    atomic_long writes;       /* write to a file, but not to the log: ENOSPC */
    atomic_long stuck;        /* not 0: write to a file, but not to the log, never returns */
    atomic_long sync_ms;      /* that each fsync takes longer */
    atomic_long priorities;   /* setpriority: EPERM */
    atomic_long lookup_ms;    /* not 0: that getaddrinfo takes to find no name */
    atomic_long hashes;       /* argon2id_ctx: the module that asks for it crashes */
    atomic_long answer_ms;    /* that getaddrinfo takes longer */
    atomic_long refused_from; /* not 0: allocations of so many bytes and more fail */
    char only[24];            /* not "": only allocations of the library whose path has this count;
                               * written while `allocations` is 0 */
};

/* Numbers of one's own for a host, and the environment that makes it heed them (rack.c). */
struct rack {
    struct torture *numbers;
    const char *const *environment;
};

struct rack rack_make(const char *name);

struct host;

/* Starts it with a counter at n: it listens, is healthy and stops; or it has ended by itself, with
 * a status that says so. Fails the test otherwise. Whether it bore a failure. */
bool rack_start(struct host *host, atomic_long *counter, long n);

#endif
