/* The event certificate.issued, which the organization receives. */
#include "modules/certificate/base/certificate.h"

int certificate_emit(struct bb_request *rq, struct bb_tx *tx,
                     const struct certificate_issued *issued)
{
    struct bb_audience audience = {.size = sizeof(audience), .organisation = issued->organisation};
    json_t *payload = json_pack(
        "{s:s, s:I, s:o, s:s, s:s, s:I, s:I}", "certificateTransactionUID", issued->uid,
        "organizationId", (json_int_t)issued->organisation, "groupId",
        issued->group ? json_integer(issued->group) : json_null(), "certificate_issuance_start",
        issued->start, "certificate_issuance_end", issued->end, "issued_watthour",
        (json_int_t)issued->wh, "entries", (json_int_t)issued->entries);

    return payload ? bb_emit(rq, tx, "certificate.issued", payload, &audience) : -1;
}
