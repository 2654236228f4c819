/* The state of one generation. */
#include <string.h>

#include "modules/certificate/base/certificate.h"
#include "modules/common/slots.h"

int certificate_open(struct bb_host *host, void **state)
{
    struct certificate *certificate = bb_host_alloc(host, sizeof(*certificate));

    if (!certificate)
        return bb_open_fail(host, "out of memory");
    const struct certificate_settings *settings = bb_settings(host);

    certificate->settings = settings;
    certificate->internal = strcmp(settings->issuer, "internal") == 0;
    certificate->exports =
        slots_new(host, settings->exports, settings->exports_per_account, "exports");
    if (!certificate->exports)
        return bb_open_fail(host, "out of memory");

    struct bb_service devices = bb_service(host, "devices");
    struct bb_service accounts = bb_service(host, "accounts");
    struct bb_service readings = bb_service(host, "readings");

    certificate->devices = devices.interface;
    certificate->devices_state = devices.state;
    certificate->accounts = accounts.interface;
    certificate->accounts_state = accounts.state;
    certificate->readings = readings.interface;
    certificate->readings_state = readings.state;
    *state = certificate;
    return 0;
}

void certificate_close(struct bb_host *host, void *state)
{
    const struct certificate *certificate = state;

    (void)host;
    slots_free(certificate->exports);
}
