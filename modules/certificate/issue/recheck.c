/*
 * When the capacity of a device is corrected, energy above its ceiling may be certified after all:
 * its cycles become due again.
 */
#include <string.h>

#include "modules/certificate/base/certificate.h"

static bool changes_ceiling(const json_t *payload)
{
    size_t i;
    const json_t *name;

    json_array_foreach(json_object_get(payload, "changed"), i, name)
    {
        const char *text = json_string_value(name);

        if (!strcmp(text, "capacity") || !strcmp(text, "yieldValue") ||
            !strcmp(text, "countryCode") || !strcmp(text, "commissioningDate"))
            return true;
    }
    return false;
}

/* $1 device */
static const struct bb_sql recheck = {"SELECT certificate_recheck($1::bigint)", BB_SQL_WRITE};

int certificate_recheck(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                        void *state)
{
    const json_t *device = json_object_get(event->payload, "device");

    (void)state;
    if (!changes_ceiling(event->payload))
        return 0;
    return bb_add(rq, tx, &recheck,
                  BB_ARGS(bb_i(json_integer_value(json_object_get(device, "id"))))) < 0
               ? -1
               : 0;
}
