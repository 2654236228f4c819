/* An entry of the log in the form of the specification. */
#include "modules/certificate/base/certificate.h"

static const int64_t none = 0;

int certificate_scope(struct bb_request *rq, int64_t asked, struct certificate_scope *scope)
{
    const struct bb_principal *who = rq->principal;
    bool admin = who->role == BB_ROLE_ADMIN;
    int64_t organization;
    int refused = bb_organization(rq, asked, &organization);

    if (refused)
        return refused;
    *scope = (struct certificate_scope){.all = admin && !organization, .organizations = &none};
    if (organization) {
        int64_t *one = bb_alloc(rq, sizeof(*one));

        *one = organization;
        scope->organizations = one;
        scope->count = 1;
    } else if (who->organization_count > 0) {
        scope->organizations = who->organizations;
        scope->count = who->organization_count;
    }
    return 0;
}

/* An organization named by an Admin must exist; other callers can only name existing ones. */
static int admin_home(struct bb_request *rq, int64_t asked)
{
    const struct certificate *certificate = rq->state;
    int known = certificate->accounts->organization_known(certificate->accounts_state, rq, asked);

    if (known < 0)
        return bb_failed(rq);
    return known ? 0 : bb_fail(rq, 404, "Organization not found");
}

int certificate_home(struct bb_request *rq, int64_t asked, int64_t *organization)
{
    int refused = bb_home(rq, asked, organization);

    return refused || rq->principal->role != BB_ROLE_ADMIN ? refused
                                                           : admin_home(rq, *organization);
}

int certificate_emit(struct bb_request *rq, struct bb_tx *tx,
                     const struct certificate_issued *issued)
{
    struct bb_audience audience = {.size = sizeof(audience), .organization = issued->organization};
    json_t *payload = json_pack(
        "{s:s, s:I, s:o, s:s, s:s, s:I, s:I}", "certificateTransactionUID", issued->uid,
        "organizationId", (json_int_t)issued->organization, "groupId",
        issued->group ? json_integer(issued->group) : json_null(), "certificate_issuance_start",
        issued->start, "certificate_issuance_end", issued->end, "issued_watthour",
        (json_int_t)issued->wh, "entries", (json_int_t)issued->entries);

    return payload ? bb_emit(rq, tx, "certificate.issued", payload, &audience) : -1;
}

static int64_t *ids_of(struct bb_request *rq, const struct bb_rows *rows, size_t count)
{
    int64_t *ids = bb_alloc(rq, (count + 1) * sizeof(*ids));

    for (size_t i = 0; i < count; i++)
        ids[i] = bb_cell_int(rq, rows, i, CERTIFICATE_DEVICE);
    return ids;
}

const struct bb_device *certificate_devices(struct bb_request *rq, const struct bb_rows *rows,
                                            size_t count)
{
    const struct certificate *certificate = rq->state;
    const int64_t *ids = ids_of(rq, rows, count);
    struct bb_device *devices = bb_alloc(rq, sizeof(*devices));

    if (count && certificate->devices->get(certificate->devices_state, rq, ids, count, &devices))
        return NULL;
    return devices;
}

const char **certificate_sites(struct bb_request *rq, const struct bb_rows *rows, size_t count)
{
    const struct certificate *certificate = rq->state;
    const int64_t *ids = ids_of(rq, rows, count);
    const char **names = bb_alloc(rq, sizeof(*names));

    if (count && certificate->devices->sites(certificate->devices_state, rq, ids, count, &names))
        return NULL;
    return names;
}

json_t *certificate_entry(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                          const struct bb_device *device)
{
    bool ongoing = bb_cell(rq, rows, row, CERTIFICATE_GROUP) != NULL;
    const char *start = bb_time_text(rq, bb_cell_int(rq, rows, row, CERTIFICATE_START));
    const char *end = bb_time_text(rq, bb_cell_int(rq, rows, row, CERTIFICATE_END));

    return json_pack(
        "{s:I, s:s, s:s, s:I, s:s, s:s?, s:s?, s:s?, s:I, s:o, s:s, s:s?, s:s?, s:s?}", "id",
        (json_int_t)bb_cell_int(rq, rows, row, CERTIFICATE_ID), "certificate_issuance_start", start,
        "certificate_issuance_end", end, "readvalue_watthour",
        (json_int_t)bb_cell_int(rq, rows, row, CERTIFICATE_WH), "status",
        bb_cell(rq, rows, row, CERTIFICATE_STATUS), "externalId", device->uuid, "developerId",
        device->external_id, "serialNumber", device->serial_number, "deviceId",
        (json_int_t)bb_cell_int(rq, rows, row, CERTIFICATE_DEVICE), "groupId",
        ongoing ? json_integer(bb_cell_int(rq, rows, row, CERTIFICATE_GROUP)) : json_null(),
        "certificateTransactionUID", bb_cell(rq, rows, row, CERTIFICATE_UID), "timezone",
        device->timezone, "ongoing_start_date", ongoing ? start : NULL, "ongoing_end_date",
        ongoing ? end : NULL);
}

int certificate_reply(struct bb_request *rq, int status, json_t *json)
{
    return json ? bb_reply(rq, status, json) : bb_fail(rq, 503, "Out of memory");
}
