#include "core/recovery/kept.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void drop(struct kept *kept)
{
    for (size_t i = 0; i < kept->count; i++)
        close(kept->fds[i]);
    *kept = (struct kept){.count = 0};
}

void kept_add(struct kept list[KEPT_MAX], const char *key, const int *fds, size_t count)
{
    size_t kind = strcspn(key, ":") + 1;
    struct kept *place = NULL;

    for (size_t i = 0; i < KEPT_MAX; i++) {
        struct kept *at = &list[i];

        if (!strncmp(at->key, key, kind))
            drop(at);
        if (!place && !*at->key)
            place = at;
    }
    if (!count)
        return;
    struct kept given = {.count = count};

    snprintf(given.key, sizeof given.key, "%s", key);
    memcpy(given.fds, fds, count * sizeof *fds);
    if (place)
        *place = given;
    else
        drop(&given);
}
