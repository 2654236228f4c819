/* An entry of the log in the form of the specification. */
#include "modules/certificate/base/certificate.h"

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
