/* Finds the devices named for a group, and reports which of them already are in a group. */
#include <math.h>
#include <string.h>

#include "modules/certificate/base/certificate.h"

#define ID_MOST 9007199254740992.0 /* 2^53: doubles are exact up to this number */

struct named {
    int64_t organization;
    int64_t *devices;
    size_t count;
};

static int problem(struct bb_request *rq, json_t *errors, size_t index, const char *text)
{
    return json_array_append_new(
        errors,
        json_pack("{s:s, s:s}", "field", bb_format(rq, "deviceIds[%zu]", index), "problem", text));
}

/* Devices of other organizations get the same error as devices that do not exist. */
static int check_devices(struct bb_request *rq, const struct named *named)
{
    const struct certificate *certificate = rq->state;
    struct bb_device *devices = NULL;

    if (certificate->devices->get(certificate->devices_state, rq, named->devices, named->count,
                                  &devices))
        return bb_failed(rq);
    json_t *errors = json_array();

    for (size_t i = 0; i < named->count; i++)
        if (!devices[i].size || devices[i].organization != named->organization)
            problem(rq, errors, i, "is not a device of the organization");
    if (json_array_size(errors))
        return bb_refuse(rq, errors);
    json_decref(errors);
    return 0;
}

/* Accepts 5.0 as 5, like other fields; 0: not an id. */
static int64_t item_id(const json_t *item)
{
    double real = json_real_value(item);

    if (json_is_real(item) && real >= 1 && real <= ID_MOST && real == trunc(real))
        return (int64_t)real;
    return json_integer_value(item);
}

/* Numbers are ids; other items are added to `keys`, and their indexes to `places`. */
static int read_ids(struct bb_request *rq, struct named *named, const json_t *sent, json_t *keys,
                    size_t *places)
{
    json_t *errors = json_array();

    for (size_t i = 0; i < named->count; i++) {
        json_t *item = json_array_get(sent, i);

        named->devices[i] = item_id(item);
        places[json_array_size(keys)] = i;
        if (json_is_string(item))
            json_array_append(keys, item);
        else if (named->devices[i] < 1)
            problem(rq, errors, i, "must be an id, a uuid or an externalId");
    }
    if (json_array_size(errors))
        return bb_refuse(rq, errors);
    json_decref(errors);
    return 0;
}

static int read_devices(struct bb_request *rq, struct named *named, const json_t *sent)
{
    const struct certificate *certificate = rq->state;
    size_t *places = bb_alloc(rq, (named->count + 1) * sizeof(*places));
    json_t *keys = json_array();
    int64_t *ids = NULL;
    int refused = read_ids(rq, named, sent, keys, places);
    size_t count = json_array_size(keys);

    if (!refused && count &&
        certificate->devices->resolve(certificate->devices_state, rq, keys, named->organization,
                                      &ids))
        refused = bb_failed(rq);
    for (size_t i = 0; !refused && i < count; i++)
        named->devices[places[i]] = ids[i];
    json_decref(keys);
    return refused ? refused : check_devices(rq, named);
}

int certificate_group_devices(struct bb_request *rq, int64_t organization, const json_t *sent,
                              int64_t **devices, size_t *count)
{
    struct named named = {.organization = organization, .count = json_array_size(sent)};

    named.devices = bb_alloc(rq, named.count * sizeof(*named.devices));
    *devices = named.devices;
    *count = named.count;
    return read_devices(rq, &named, sent);
}

/* A device is free if its group has ended. */
static const struct bb_sql taken = {
    "SELECT t.place - 1 FROM unnest($1::bigint[]) WITH ORDINALITY AS t (device, place)"
    " JOIN certificate_member m ON m.device = t.device JOIN certificate_group g"
    " ON g.id = m.group_id WHERE g.end_at IS NULL OR g.end_at > now() ORDER BY t.place",
    0};

int certificate_group_taken(struct bb_request *rq, const int64_t *devices, size_t count)
{
    if (strcmp(bb_constraint(rq), "certificate_member_once") != 0)
        return bb_failed(rq);
    const struct bb_rows *rows = bb_query(rq, &taken, BB_ARGS(bb_ints(devices, count)));

    if (!rows)
        return bb_failed(rq);
    json_t *errors = json_array();

    for (size_t i = 0; i < bb_count(rq, rows); i++)
        problem(rq, errors, (size_t)bb_cell_int(rq, rows, i, 0), "is in a group already");
    if (json_array_size(errors))
        return bb_fail_listed(rq, 409, errors, "A device can be in one group only");
    json_decref(errors);
    return bb_invalid(rq, "deviceIds", "must not have a device twice");
}
