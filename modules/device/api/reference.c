/*
 * GET /api/reference/…: the choices that a form offers for the fields of a device. Other codes are
 * accepted too; value.c checks the fields.
 */
#include "modules/device/record/device.h"
#include "modules/device/value/codes.h"
#include "modules/device/value/timezones.h"

/* Takes ownership of the item. If out of memory, frees the list and returns NULL. */
static json_t *append(json_t *list, json_t *item)
{
    if (list && !json_array_append_new(list, item))
        return list;
    json_decref(list);
    return NULL;
}

int device_countries(struct bb_request *rq)
{
    json_t *list = json_array();

    for (int i = 0; i < COUNTRIES && list; i++) {
        char two[4], three[4];

        country_code(i, 2, two);
        country_code(i, 3, three);
        list = append(list, json_pack("{s:s, s:s, s:s}", "alpha2", two, "alpha3", three, "name",
                                      country_name(i)));
    }
    return bb_reply(rq, 200, list);
}

static int reply_codes(struct bb_request *rq, const struct code *codes)
{
    json_t *list = json_array();

    for (; codes->code && list; codes++)
        list = append(list, json_pack("{s:s, s:s}", "code", codes->code, "name", codes->name));
    return bb_reply(rq, 200, list);
}

int device_fuel_codes(struct bb_request *rq)
{
    return reply_codes(rq, fuel_codes);
}

int device_types(struct bb_request *rq)
{
    return reply_codes(rq, device_type_codes);
}

int device_time_zones(struct bb_request *rq)
{
    const struct device *state = rq->state;
    json_t *list = json_array();

    for (size_t i = 0; i < timezones_count(state->zones) && list; i++)
        list = append(list, json_pack("{s:s}", "name", timezones_name(state->zones, i)));
    return bb_reply(rq, 200, list);
}
