/*
 * The time zones that were used, cached until the generation ends; there are about 600 names. Files
 * are read in a pool, so that no loop waits for a disk.
 */
#include <busbar/lock.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "modules/reading/reading.h"

struct known {
    char name[ZONE_NAME_MAX]; /* first, so that a name can be compared with a zone */
    struct zone *zone;
    bool failed; /* it could not be read */
};

static int zones_compare(const void *one, const void *other)
{
    return strcmp(one, other);
}

static void zones_free_known(void *arg)
{
    struct known *known = arg;

    free(known->zone);
    free(known);
}

void zones_free(struct reading *reading)
{
    tdestroy(reading->zones, zones_free_known);
    pthread_mutex_destroy(&reading->zones_lock);
}

static void zones_read(void *arg)
{
    struct known *known = arg;

    known->zone = zone_read(known->name, &known->failed);
}

int zones_get(struct bb_request *rq, const char *name, const struct zone **zone)
{
    struct reading *reading = rq->state;

    *zone = NULL;
    if (!zone_name_good(name))
        return 0;
    pthread_mutex_lock(&reading->zones_lock);
    struct known *const *found = tfind(name, &reading->zones, zones_compare);

    *zone = found ? (*found)->zone : NULL;
    pthread_mutex_unlock(&reading->zones_lock);
    if (*zone)
        return 0;
    struct known *known = calloc(1, sizeof(*known));

    if (!known) {
        bb_alloc(rq, SIZE_MAX); /* ends the request */
        return -1;
    }
    strcpy(known->name, name); /* fits: see zone_name_good() */
    bool failed = bb_offload(rq, READING_POOL, zones_read, known) != 0;

    if (known->zone) {
        BB_LOCKED(&reading->zones_lock);
        found = tsearch(known, &reading->zones, zones_compare);
        *zone = found ? (*found)->zone : NULL; /* another request may have been faster */
    }
    bool starved = known->failed || (known->zone && !*zone);

    if (*zone != known->zone || !known->zone)
        zones_free_known(known);
    if (starved)
        bb_alloc(rq, SIZE_MAX);
    return failed ? -1 : 0;
}
