/*
 * Countries, and GET /api/reference/…: the choices that a form offers for the fields of a device,
 * from reference.tsv. Other codes are accepted, too; fields.c checks the fields.
 */
#include <search.h>
#include <string.h>
#include <strings.h>

#include "modules/device/device.h"
#include "modules/device/reference.h"

_Static_assert(sizeof(countries) / sizeof(countries[0]) == COUNTRIES, "a country is missing");

/* Ignores case. Compares the first letters first, because most names differ in them. */
static bool country_is(const char *name, const char *other)
{
    return (*name | 0x20) == (*other | 0x20) && !strcasecmp(name, other);
}

static int country_find_name(const char *name)
{
    for (int i = 0; i < COUNTRIES; i++)
        if (country_is(countries[i][2], name))
            return i;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (country_is(names[i][1], name))
            return country_find(names[i][0]);
    return -1;
}

int country_find(const char *code)
{
    size_t length = strlen(code);

    for (int i = 0; i < COUNTRIES && (length == 2 || length == 3); i++)
        if (country_is(countries[i][length - 2], code))
            return i;
    return -1;
}

bool device_country_codes(struct bb_request *rq, const char *sent, const char *codes[2])
{
    const char *trimmed = device_trimmed(rq, sent);
    int country = country_find(trimmed);

    if (country < 0)
        country = country_find_name(trimmed);
    codes[0] = country < 0 ? trimmed : countries[country][0];
    codes[1] = country < 0 ? trimmed : countries[country][1];
    return country >= 0;
}

/* ---- routes ---- */

int device_countries(struct bb_request *rq)
{
    json_t *list = json_array();

    for (int i = 0; i < COUNTRIES && list; i++)
        list = bb_append(list, json_pack("{s:s, s:s, s:s}", "alpha2", countries[i][0], "alpha3",
                                         countries[i][1], "name", countries[i][2]));
    return bb_reply(rq, 200, list);
}

static int reference_reply(struct bb_request *rq, const char *const (*codes)[2], size_t count)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count && list; i++)
        list = bb_append(list, json_pack("{s:s, s:s}", "code", codes[i][0], "name", codes[i][1]));
    return bb_reply(rq, 200, list);
}

int device_fuel_codes(struct bb_request *rq)
{
    return reference_reply(rq, fuel_codes, sizeof(fuel_codes) / sizeof(fuel_codes[0]));
}

int device_types(struct bb_request *rq)
{
    return reference_reply(rq, device_type_codes,
                           sizeof(device_type_codes) / sizeof(device_type_codes[0]));
}

static void reference_add_zone(const void *node, VISIT visit, void *list)
{
    const char *const *name = node;

    if (visit == postorder || visit == leaf)
        *(json_t **)list = bb_append(*(json_t **)list, json_pack("{s:s}", "name", *name));
}

int device_time_zones(struct bb_request *rq)
{
    const struct device *state = rq->state;
    json_t *list = json_array();

    twalk_r(state->zones, reference_add_zone, &list);
    return bb_reply(rq, 200, list);
}
