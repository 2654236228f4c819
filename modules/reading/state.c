/* The state of one generation: settings, the service "devices", time zones, slots of exports. */
#include "modules/common/slots.h"
#include "modules/reading/base/reading.h"

int reading_open(struct bb_host *host, void **state)
{
    struct reading *reading = bb_host_alloc(host, sizeof(*reading));

    if (!reading)
        return bb_open_fail(host, "out of memory");
    const struct reading_settings *settings = bb_settings(host);
    struct bb_service devices = bb_service(host, "devices");

    reading->settings = settings;
    reading->devices = devices.interface;
    reading->devices_state = devices.state;
    reading->zones = zones_new();
    if (!reading->zones)
        return bb_open_fail(host, "no memory for time zones");
    reading->exports = slots_new(host, settings->exports, settings->exports_per_account, "exports");
    if (!reading->exports) {
        zones_free(reading->zones);
        return bb_open_fail(host, "out of memory");
    }
    *state = reading;
    return 0;
}

void reading_close(struct bb_host *host, void *state)
{
    struct reading *reading = state;

    (void)host;
    slots_free(reading->exports);
    zones_free(reading->zones);
}
