/* The state of one generation: settings and the yields of countries. */
#include "device.h"
#include "type.h"

static int read_yields(struct bb_host *host, struct device *device)
{
    json_t *yields = bb_setting_json(host, "yields");
    const char *country;
    json_t *yield;

    json_object_foreach(yields, country, yield)
    {
        int index = country_find(country);

        if (index < 0)
            return bb_open_fail(host, "yields: there is no country with the code %s", country);
        if (!json_is_number(yield) || json_number_value(yield) < YIELD_MIN ||
            json_number_value(yield) > YIELD_MAX)
            return bb_open_fail(host, "yields: %s must be a number from %d to %d", country,
                                YIELD_MIN, YIELD_MAX);
        device->yields[index] = json_number_value(yield);
    }
    return 0;
}

int device_open(struct bb_host *host, void **state)
{
    char why[256];
    struct device *device = bb_host_alloc(host, sizeof(*device));

    if (!device)
        return bb_open_fail(host, "out of memory");
    device->default_yield = bb_setting_number(host, "default_yield");
    device->documents = bb_setting_text(host, "documents");
    device->types = bb_setting_json(host, "document_types");
    device->grace_s = bb_setting_int(host, "document_grace");
    if (read_yields(host, device))
        return -1;
    device->finder = type_finder_new(why, sizeof(why));
    if (!device->finder)
        return bb_open_fail(host, "libmagic: %s", why);
    *state = device;
    return 0;
}

void device_close(struct bb_host *host, void *state)
{
    struct device *device = state;

    (void)host;
    type_finder_free(device->finder);
}
