/* Descriptors that outlive a worker: the supervisor stores them for the next one. Private to
 * supervisor.c and supervised.c. */
#ifndef CORE_DESCRIPTOR_STORE_H
#define CORE_DESCRIPTOR_STORE_H

#include "core/lib/channel.h"

enum { KEPT_MAX = 8 };

struct stored_descriptors {
    char key[CHANNEL_TEXT]; /* "": unused */
    int fds[CHANNEL_FILES];
    size_t count;
};

/*
 * Takes the descriptors, and closes those whose key has the same word before the colon. If `count`
 * is 0, it only closes.
 */
void descriptor_store_add(struct stored_descriptors list[KEPT_MAX], const char *key, const int *fds,
                          size_t count);

#endif
