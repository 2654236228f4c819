/* The state of one generation: settings, yields of countries, store, time zones and file types. */
#include <stdio.h>
#include <string.h>

#include "modules/device/record/device.h"
#include "modules/device/store/store.h"
#include "modules/device/value/timezones.h"
#include "modules/device/value/type.h"

#define ZONES "/usr/share/zoneinfo"

static int read_yields(struct bb_host *host, struct device *device)
{
    const char *country;
    json_t *yield;

    json_object_foreach(device->settings->yields, country, yield)
    {
        int index = country_find(country);

        if (index < 0)
            return bb_open_fail(host, "yields: there is no country with the code %s", country);
        if (!json_is_number(yield) || json_number_value(yield) < (double)YIELD_MIN ||
            json_number_value(yield) > (double)YIELD_MAX)
            return bb_open_fail(host, "yields: %s must be a number from %d to %d", country,
                                YIELD_MIN, YIELD_MAX);
        device->yields[index] = json_number_value(yield);
    }
    return 0;
}

static struct store *open_store(const struct device_settings *settings, char why[STORE_WHY])
{
    if (!strcmp(settings->store, "s3"))
        return store_s3_new(settings, why);
    snprintf(why, STORE_WHY, "out of memory");
    return store_directory_new(settings->documents);
}

int device_open(struct bb_host *host, void **state)
{
    char why[256];
    struct device *device = bb_host_alloc(host, sizeof(*device));

    if (!device)
        return bb_open_fail(host, "out of memory");
    struct bb_service accounts = bb_service(host, "accounts");

    device->accounts = accounts.interface;
    device->accounts_state = accounts.state;
    device->settings = bb_settings(host);
    if (read_yields(host, device))
        return -1;
    device->finder = type_finder_new(why, sizeof(why));
    if (!device->finder)
        return bb_open_fail(host, "libmagic: %s", why);
    device->zones = timezones_new(ZONES);
    device->store = device->zones ? open_store(device->settings, why) : NULL;
    if (!device->store) {
        bool read = device->zones != NULL;

        timezones_free(device->zones);
        type_finder_free(device->finder);
        return bb_open_fail(host, "%s", read ? why : ZONES " cannot be read");
    }
    *state = device;
    return 0;
}

void device_close(struct bb_host *host, void *state)
{
    struct device *device = state;

    (void)host;
    store_free(device->store);
    type_finder_free(device->finder);
    timezones_free(device->zones);
}
