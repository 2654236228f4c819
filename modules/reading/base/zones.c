/*
 * The time zones that were used, cached for the life of the generation; there are about 600 names.
 * Files are read in a pool, so that no loop waits for a disk.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "modules/reading/base/reading.h"

struct known {
    struct known *next;
    struct zone *zone;
    char name[ZONE_NAME_MAX];
};

struct zones {
    pthread_mutex_t lock;
    struct known *first;
};

/* The argument of a read in the pool. */
struct errand {
    const char *name;
    struct zone *zone;
    bool failed;
};

struct zones *zones_new(void)
{
    struct zones *zones = calloc(1, sizeof(*zones));

    if (zones && pthread_mutex_init(&zones->lock, NULL) != 0) {
        free(zones);
        return NULL;
    }
    return zones;
}

void zones_free(struct zones *zones)
{
    while (zones->first) {
        struct known *next = zones->first->next;

        free(zones->first->zone);
        free(zones->first);
        zones->first = next;
    }
    pthread_mutex_destroy(&zones->lock);
    free(zones);
}

static const struct zone *find(const struct zones *zones, const char *name)
{
    for (const struct known *at = zones->first; at; at = at->next)
        if (!strcmp(at->name, name))
            return at->zone;
    return NULL;
}

static const struct zone *look(struct zones *zones, const char *name)
{
    pthread_mutex_lock(&zones->lock);
    const struct zone *zone = find(zones, name);
    pthread_mutex_unlock(&zones->lock);
    return zone;
}

/*
 * Takes ownership of the zone. If another request was faster, returns that request's zone. NULL:
 * out of memory.
 */
static const struct zone *keep(struct zones *zones, const char *name, struct zone *zone)
{
    struct known *entry = calloc(1, sizeof(*entry));

    pthread_mutex_lock(&zones->lock);
    const struct zone *kept = find(zones, name);

    if (!kept && entry) {
        memcpy(entry->name, name, strlen(name) + 1); /* fits: see zone_name_good() */
        entry->zone = zone;
        entry->next = zones->first;
        zones->first = entry;
        entry = NULL;
        kept = zone;
    }
    pthread_mutex_unlock(&zones->lock);
    free(entry);
    if (kept != zone)
        free(zone);
    return kept;
}

static void read_file(void *arg)
{
    struct errand *errand = arg;

    errand->zone = zone_read(errand->name, &errand->failed);
}

int zones_get(struct bb_request *rq, const char *name, const struct zone **zone)
{
    struct reading *reading = rq->state;
    struct errand errand = {.name = name};

    *zone = NULL;
    if (!zone_name_good(name))
        return 0;
    *zone = look(reading->zones, name);
    if (*zone)
        return 0;
    if (bb_offload(rq, READING_POOL, read_file, &errand))
        return -1;
    if (errand.zone)
        *zone = keep(reading->zones, name, errand.zone);
    if (*zone || (!errand.zone && !errand.failed))
        return 0;
    bb_no_memory(rq);
    return -1;
}
