/*
 * Control groups of the kernel, for hosts that shall have little memory or few threads: of version
 * 1 or 2, whichever has the controller. A group is made below the one that the test runs in, and
 * needs root; a test that cannot have it fails.
 */
#ifndef TESTS_FAULT_GROUP_H
#define TESTS_FAULT_GROUP_H

#include <stdbool.h>

struct group {
    char *path;
    bool first;                 /* of version 1 */
    const char *const *wrapper; /* for host_spec: who is started so is inside from its first page */
};

/* `controller`: "memory" or "pids". */
struct group *group_make(const char *controller);

/* Bytes of memory, or threads; -1: no limit. */
void group_limit(const struct group *group, long amount);

/* What is used of it now, and how many the kernel has killed for want of memory. */
long group_used(const struct group *group);
long group_kills(const struct group *group);

/* Removes it; its hosts have ended. */
void group_end(const struct group *group);

#endif
