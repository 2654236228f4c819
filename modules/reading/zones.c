/*
 * The time zones that were used, cached for the life of the generation; there are about 600 names.
 * Files are read in a pool, so that no loop waits for a disk.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "modules/reading/reading.h"

struct known {
    struct known *next;
    struct zone *zone;
    bool failed; /* to read it */
    char name[ZONE_NAME_MAX];
};

struct zones {
    pthread_mutex_t lock;
    struct known *first;
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

static void zones_free_known(struct known *known)
{
    if (known)
        free(known->zone);
    free(known);
}

void zones_free(struct zones *zones)
{
    for (struct known *next; zones->first; zones->first = next) {
        next = zones->first->next;
        zones_free_known(zones->first);
    }
    pthread_mutex_destroy(&zones->lock);
    free(zones);
}

/* Returns the zone, or NULL. Takes `more`, which is added if there is none with its name yet. */
static const struct zone *zones_find(struct zones *zones, const char *name, struct known *more)
{
    pthread_mutex_lock(&zones->lock);
    struct known *known = zones->first;

    while (known && strcmp(known->name, name) != 0)
        known = known->next;
    if (!known && more) {
        more->next = zones->first;
        known = zones->first = more;
        more = NULL;
    }
    pthread_mutex_unlock(&zones->lock);
    zones_free_known(more);
    return known ? known->zone : NULL;
}

static void zones_read(void *arg)
{
    struct known *known = arg;

    known->zone = zone_read(known->name, &known->failed);
}

int zones_get(struct bb_request *rq, const char *name, const struct zone **zone)
{
    const struct reading *reading = rq->state;

    *zone = NULL;
    if (!zone_name_good(name))
        return 0;
    *zone = zones_find(reading->zones, name, NULL);
    if (*zone)
        return 0;
    struct known *known = calloc(1, sizeof(*known));
    bool failed = !known;

    if (known) {
        strcpy(known->name, name); /* fits: see zone_name_good() */
        if (bb_offload(rq, READING_POOL, zones_read, known)) {
            zones_free_known(known);
            return -1;
        }
        failed = known->failed;
        if (known->zone)
            *zone = zones_find(reading->zones, name, known);
        else
            zones_free_known(known);
    }
    if (failed)
        bb_no_memory(rq);
    return failed ? -1 : 0;
}
