#include "core/lib/descriptor_store.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void drop(struct stored_descriptors *kept)
{
    for (size_t i = 0; i < kept->count; i++)
        close(kept->fds[i]);
    *kept = (struct stored_descriptors){.count = 0};
}

void descriptor_store_add(struct stored_descriptors list[KEPT_MAX], const char *key, const int *fds,
                          size_t count)
{
    size_t kind = strcspn(key, ":") + 1;
    struct stored_descriptors *place = NULL;

    for (size_t i = 0; i < KEPT_MAX; i++) {
        struct stored_descriptors *at = &list[i];

        if (!strncmp(at->key, key, kind))
            drop(at);
        if (!place && !*at->key)
            place = at;
    }
    if (!count)
        return;
    struct stored_descriptors given = {.count = count};

    snprintf(given.key, sizeof given.key, "%s", key);
    memcpy(given.fds, fds, count * sizeof *fds);
    if (place)
        *place = given;
    else
        drop(&given);
}
