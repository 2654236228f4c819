/* An entry of the log in the form of the specification, and who sees it. */
#include "modules/certificate/certificate.h"

int certificate_scope(struct bb_request *rq, struct certificate_scope *scope)
{
    const struct bb_principal *who = rq->principal;
    int64_t *named = bb_alloc(rq, sizeof(*named));
    int refused = bb_organization(rq, bb_arg_int(rq, "organizationId", 0), named);

    if (refused)
        return refused;
    *scope = (struct certificate_scope){
        .all = who->role == BB_ROLE_ADMIN && !*named, .organizations = named, .count = *named != 0};
    if (!*named && who->organization_count > 0) {
        scope->organizations = who->organizations;
        scope->count = who->organization_count;
    }
    return 0;
}

int64_t *certificate_ids(struct bb_request *rq, const struct bb_rows *rows, size_t count,
                         size_t column)
{
    int64_t *ids = bb_alloc(rq, (count + 1) * sizeof(*ids));

    for (size_t i = 0; i < count; i++)
        ids[i] = bb_cell_int(rq, rows, i, column);
    return ids;
}

const struct bb_device *certificate_devices(struct bb_request *rq, const struct bb_rows *rows,
                                            size_t count, size_t column)
{
    const struct certificate *certificate = rq->state;
    struct bb_device *devices = bb_alloc(rq, sizeof(*devices));

    if (count &&
        certificate->devices->get(certificate->devices_state, rq,
                                  certificate_ids(rq, rows, count, column), count, &devices))
        return NULL;
    return devices;
}

json_t *certificate_entry(struct bb_request *rq, const struct bb_rows *rows, size_t row,
                          const struct bb_device *device)
{
    const char *group = bb_cell(rq, rows, row, CERTIFICATE_GROUP);
    const char *start = bb_cell_time(rq, rows, row, CERTIFICATE_START);
    const char *end = bb_cell_time(rq, rows, row, CERTIFICATE_END);

    return json_pack(
        "{s:I, s:s, s:s, s:I, s:s, s:s?, s:s?, s:s?, s:I, s:o, s:s, s:s?, s:s?, s:s?}", "id",
        (json_int_t)bb_cell_int(rq, rows, row, CERTIFICATE_ID), "certificate_issuance_start", start,
        "certificate_issuance_end", end, "readvalue_watthour",
        (json_int_t)bb_cell_int(rq, rows, row, CERTIFICATE_WH), "status",
        bb_cell(rq, rows, row, CERTIFICATE_STATUS), "externalId", device->uuid, "developerId",
        device->external_id, "serialNumber", device->serial_number, "deviceId",
        (json_int_t)bb_cell_int(rq, rows, row, CERTIFICATE_DEVICE), "groupId",
        bb_cell_json(rq, rows, row, CERTIFICATE_GROUP, BB_COLUMN_INT), "certificateTransactionUID",
        bb_cell(rq, rows, row, CERTIFICATE_UID), "timezone", device->timezone, "ongoing_start_date",
        group ? start : NULL, "ongoing_end_date", group ? end : NULL);
}
