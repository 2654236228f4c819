/*
 * Numbers in a file that a test and torture.so (in a host that runs with LD_PRELOAD) both map. Each
 * call decrements its counter if that is above 0, and the call that brings it to 0 fails.
 * (libfaketime could move the clock, but does not start together with jemalloc.)
 */
#ifndef TESTS_FAULT_TORTURE_H
#define TESTS_FAULT_TORTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#define TORTURE_FILE "TORTURE_FILE" /* environment variable with the file's path */

struct torture {
    atomic_long allocations;  /* malloc, calloc, realloc, posix_memalign */
    atomic_long threads;      /* pthread_create */
    atomic_long spare_crypto; /* not 0: allocations of OpenSSL do not fail */
    atomic_long failed;       /* how many calls have failed */
    atomic_long clock_s;      /* seconds added to the wall clock */
    atomic_long syncs;        /* fsync: EIO */
    atomic_long writes;       /* write to a file other than the log: ENOSPC */
    atomic_long stuck;        /* not 0: write to a file other than the log never returns */
    atomic_long sync_ms;      /* extra time of each fsync */
    atomic_long priorities;   /* sched_setattr: EPERM */
    atomic_long lookup_ms;    /* not 0: time that getaddrinfo takes to find no address */
    atomic_long hashes;       /* argon2id_ctx: the module that calls it crashes */
    atomic_long answer_ms;    /* extra time of getaddrinfo */
    atomic_long refused_from; /* not 0: allocations of at least this many bytes fail */
    char only[24];            /* not "": only allocations of the library whose path contains this
                               * text count; written while `allocations` is 0 */
};

/* The numbers for one host, and the environment that connects the host to them (rack.c). */
struct rack {
    struct torture *numbers;
    const char *const *environment;
};

struct host;
struct host_spec;

struct rack rack_make(const char *name);

/* Returns the settings of a host of the plain build on a new database of that name. */
struct host_spec rack_spec(const char *name, const struct rack *rack);

/* Makes the nth allocation from now on fail; 0: none. Returns whether the previous one failed. */
bool rack_arm(const struct rack *rack, long n);

/* Waits until the armed allocation has failed; returns false after `ms` times PATIENCE. */
bool rack_failed(const struct rack *rack, int ms);

/* Fails the test if the host has ended. */
void expect_running(const struct host *host);

/* Starts the host with a counter at n. The host must either listen, be healthy and stop, or exit
 * with a status that reports the failure; otherwise the test fails. Returns whether the host
 * survived a failed call. */
bool rack_start(struct host *host, atomic_long *counter, long n);

#endif
