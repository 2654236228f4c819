/* The event reading.accepted: one event for all readings of a type in a submission. */
#include "modules/reading/base/reading.h"
#include "modules/reading/rules/unit.h"

int reading_emit(struct bb_request *rq, struct bb_tx *tx, const struct bb_device *device,
                 const struct reading_item *items, size_t count)
{
    struct bb_audience audience = {.size = sizeof(audience), .organisation = device->organisation};
    int64_t first = items[0].start;
    double wh = 0;

    for (size_t i = 0; i < count; i++) {
        first = items[i].start < first ? items[i].start : first;
        wh += items[i].wh;
    }
    json_t *payload = json_pack(
        "{s:I, s:s?, s:s, s:I, s:s, s:I, s:s, s:s, s:I, s:s}", "deviceId", (json_int_t)device->id,
        "externalId", device->external_id, "uuid", device->uuid, "organizationId",
        (json_int_t)device->organisation, "type", unit_type_name(items->type), "count",
        (json_int_t)count, "startDate", bb_time_text(rq, first), "endDate",
        bb_time_text(rq, items[count - 1].end), "value", (json_int_t)wh, "unit", "Wh");

    return payload ? bb_emit(rq, tx, "reading.accepted", payload, &audience) : -1;
}
