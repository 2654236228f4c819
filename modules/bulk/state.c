/* The state of one generation. */
#include "modules/bulk/job/bulk.h"
#include "modules/common/slots.h"

enum { STREAMS = 32, STREAMS_EACH = 4 }; /* failed.csv responses: per host, per account */

int bulk_open(struct bb_host *host, void **state)
{
    struct bulk *bulk = bb_host_alloc(host, sizeof(*bulk));

    if (!bulk || bulk_watchers_open(bulk))
        return bb_open_fail(host, "out of memory");
    bulk->streams = slots_new(host, STREAMS, STREAMS_EACH, "exports");
    if (!bulk->streams) {
        bulk_watchers_close(bulk);
        return bb_open_fail(host, "out of memory");
    }
    bulk->settings = bb_settings(host);
    *state = bulk;
    return 0;
}

void bulk_close(struct bb_host *host, void *state)
{
    struct bulk *bulk = state;

    (void)host;
    slots_free(bulk->streams);
    bulk_watchers_close(bulk);
}

double bulk_rows_waiting(void *state, size_t value)
{
    struct bulk *bulk = state;

    (void)value;
    return (double)atomic_load(&bulk->waiting);
}
