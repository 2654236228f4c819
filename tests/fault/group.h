/*
 * Control groups of the kernel (version 1 or 2, whichever has the controller), for hosts with
 * little memory or few threads. A group is made below the test's own group, which needs root.
 */
#ifndef TESTS_FAULT_GROUP_H
#define TESTS_FAULT_GROUP_H

#include <stdbool.h>

struct group {
    char *path;
    bool first;                 /* version 1 */
    const char *const *wrapper; /* for host_spec: moves the program into the group before it uses
                                 * any memory */
};

/* `controller`: "memory" or "pids". Returns NULL after reporting the test as skipped if the group
 * cannot be made. */
struct group *group_make(const char *controller);

/* Bytes of memory, or number of threads; -1: no limit. */
void group_limit(const struct group *group, long amount);

/* group_used() returns the current usage; the second function returns how many processes the kernel
 * has killed because memory ran out. */
long group_used(const struct group *group);
long group_kills(const struct group *group);

/* Removes the group; its hosts must have ended. */
void group_end(const struct group *group);

#endif
