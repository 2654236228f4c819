/*
 * Changes of a group: its name and end, devices that join and leave, its deletion.
 *
 * Joining and leaving take effect with the next cycle. They are functions in schema.sql, in which
 * every statement sees the changes that earlier statements waited for. The energy of a device in a
 * running or ended cycle stays with the group that the device was in at that time.
 */
#include <inttypes.h>
#include <string.h>

#include "modules/certificate/base/certificate.h"

/* $1 $2 scope, $3 group. Returns the group's organization. */
static const struct bb_sql find = {
    "SELECT e.organisation FROM certificate_group e WHERE " CERTIFICATE_SEES
    " AND e.id = $3::bigint",
    0};

struct found {
    struct certificate_scope scope;
    int64_t id, organization;
};

/* Finds the group in the path. Returns 0, or the status of the response sent. */
static int find_group(struct bb_request *rq, struct found *found)
{
    int refused = certificate_scope(rq, bb_arg_int(rq, "organizationId", 0), &found->scope);

    if (refused)
        return refused;
    found->id = bb_segment_int(rq, "id");
    const struct bb_rows *rows =
        bb_query(rq, &find, BB_ARGS(CERTIFICATE_SCOPE_ARGS(&found->scope), bb_i(found->id)));

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "Device group not found");
    found->organization = bb_cell_int(rq, rows, 0, 0);
    return 0;
}

/* $1 group, $2 name or null, $3 end or null; infinity: no end */
static const struct bb_sql change = {"SELECT certificate_change($1::bigint, $2, $3::timestamptz)",
                                     BB_SQL_WRITE};

int certificate_group_change(struct bb_request *rq)
{
    struct found found;
    const char *name = bb_text(rq, "name"), *end = bb_text(rq, "end");

    if (json_is_null(json_object_get(bb_body(rq), "end")))
        end = "infinity";
    int refused = find_group(rq, &found);

    if (refused)
        return refused;
    if (!name && !end)
        return bb_invalid(rq, "name", "is required, or end");
    if (!bb_query(rq, &change, BB_ARGS(bb_i(found.id), bb_t(name), bb_t(end))))
        return bb_failed(rq);
    return certificate_group_reply(rq, &found.scope);
}

/* $1 group, $2 devices */
static const struct bb_sql join = {"SELECT certificate_join($1::bigint, $2::bigint[], false)",
                                   BB_SQL_WRITE};

int certificate_group_join(struct bb_request *rq)
{
    struct found found;
    int64_t *devices;
    size_t count;
    int refused = find_group(rq, &found);

    if (!refused)
        refused = certificate_group_devices(
            rq, found.organization, json_object_get(bb_body(rq), "deviceIds"), &devices, &count);
    if (refused)
        return refused;
    if (!bb_query(rq, &join, BB_ARGS(bb_i(found.id), bb_ints(devices, count))))
        return certificate_group_taken(rq, devices, count);
    return certificate_group_reply(rq, &found.scope);
}

/*
 * Finds the device in the path. Digits are an id, like a number in deviceIds; any other text is an
 * externalId or uuid. Returns 0 if there is none, or -1 on failure.
 */
static int64_t device_of(struct bb_request *rq, int64_t organization)
{
    const struct certificate *certificate = rq->state;
    const char *key = bb_segment(rq, "deviceId");
    int64_t *ids = NULL;

    if (strspn(key, "0123456789") == strlen(key) && strlen(key) < 19)
        return strtoimax(key, NULL, 10);
    json_t *keys = json_pack("[s]", key);
    int failed =
        certificate->devices->resolve(certificate->devices_state, rq, keys, organization, &ids);

    json_decref(keys);
    return failed ? -1 : ids[0];
}

/* $1 device, $2 group */
static const struct bb_sql leave = {"SELECT certificate_leave($1::bigint, $2::bigint)::int",
                                    BB_SQL_WRITE};

int certificate_group_leave(struct bb_request *rq)
{
    struct found found;
    int refused = find_group(rq, &found);
    int64_t device = refused ? 0 : device_of(rq, found.organization);

    if (refused || device < 0)
        return refused ? refused : bb_failed(rq);
    const struct bb_rows *rows = bb_query(rq, &leave, BB_ARGS(bb_i(device), bb_i(found.id)));

    if (!rows)
        return bb_failed(rq);
    if (!bb_cell_int(rq, rows, 0, 0))
        return bb_fail(rq, 404, "The device is not in the group");
    return certificate_group_reply(rq, &found.scope);
}

static const struct bb_sql forget = {"SELECT busbar_require(certificate_group_forget($1::bigint), "
                                     "409, 'Conflict: energy of the group"
                                     " was certified or is carried. Set its end instead')",
                                     BB_SQL_WRITE};

int certificate_group_delete(struct bb_request *rq)
{
    struct found found;
    int refused = find_group(rq, &found);

    if (refused)
        return refused;
    if (!bb_query(rq, &forget, BB_ARGS(bb_i(found.id))))
        return bb_failed(rq);
    return certificate_reply(rq, 200, json_pack("{s:b}", "success", 1));
}
