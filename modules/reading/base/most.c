/* The ceiling of a device; used by the service "readings" and by totals. */
#include "modules/reading/base/reading.h"

int64_t reading_ceiling(void *state, const struct bb_device *device, int64_t start, int64_t end)
{
    const struct reading *reading = state;
    struct ceiling_device facts = {.capacity_kw = device->capacity_kw, .yield = device->yield};
    struct moment day;

    if (!device->commissioned || moment_parse(device->commissioned, &day) != 0 ||
        !(device->capacity_kw > 0))
        return 0;
    facts.commissioned = day.ms;
    double wh = ceiling_wh(&reading->settings->rule, &facts, start, end);

    return wh < (double)(INT64_MAX / 2) ? (int64_t)wh : INT64_MAX / 2;
}
