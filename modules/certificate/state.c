/* The state of one generation. */
#include <string.h>

#include "certificate.h"

int certificate_open(struct bb_host *host, void **state)
{
    struct certificate *certificate = bb_host_alloc(host, sizeof(*certificate));

    if (!certificate)
        return bb_open_fail(host, "out of memory");
    certificate->internal = strcmp(bb_setting_text(host, "issuer"), "internal") == 0;
    certificate->issuers = bb_setting_json(host, "issuers");
    certificate->threshold = bb_setting_int(host, "threshold");
    certificate->places = certificate_places_new(host);
    if (!certificate->places)
        return bb_open_fail(host, "out of memory");

    struct bb_service devices = bb_service(host, "devices");
    struct bb_service accounts = bb_service(host, "accounts");

    certificate->devices = devices.interface;
    certificate->devices_state = devices.state;
    certificate->accounts = accounts.interface;
    certificate->accounts_state = accounts.state;
    *state = certificate;
    return 0;
}

void certificate_close(struct bb_host *host, void *state)
{
    const struct certificate *certificate = state;

    (void)host;
    certificate_places_free(certificate->places);
}
