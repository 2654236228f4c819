/*
 * POST /api/device-group: devices whose Delta readings are issued together, and how often. What the
 * devices have stored already is looked through by the next run of the job.
 */
#include <math.h>
#include <string.h>

#include "certificate.h"

#define ID_MOST 9007199254740992.0 /* 2^53: doubles are exact up to here */

struct group {
    int64_t id, organisation;
    int64_t start, end, created; /* ms since 1970 */
    bool ends;
    int64_t *devices;
    size_t count;
};

/* $1 $2 start and end, as they were sent */
static const struct bb_sql times = {
    "SELECT " CERTIFICATE_MS("$1::timestamptz") ", " CERTIFICATE_MS("$2::timestamptz"), 0};

static const struct bb_sql make = {
    "INSERT INTO certificate_group (id, organisation, name, frequency, start_at, end_at, "
    "created_at)"
    " VALUES ($1::bigint, $2::bigint, $3, $4, $5::timestamptz, $6::timestamptz, $7::timestamptz)",
    BB_SQL_WRITE};
static const struct bb_sql join = {"INSERT INTO certificate_member (device, group_id)"
                                   " SELECT d, $1::bigint FROM unnest($2::bigint[]) d ORDER BY d",
                                   BB_SQL_WRITE};
static const struct bb_sql look = {
    "INSERT INTO certificate_look AS l (device, first_at, last_at)"
    " SELECT d, '-infinity', 'infinity' FROM unnest($1::bigint[]) d ORDER BY d"
    " ON CONFLICT (device) DO UPDATE SET first_at = '-infinity', last_at = 'infinity'",
    BB_SQL_WRITE};

static const struct bb_sql taken = {
    "SELECT t.place - 1 FROM unnest($1::bigint[]) WITH ORDINALITY AS t (device, place)"
    " JOIN certificate_member m ON m.device = t.device ORDER BY t.place",
    0};

static int problem(struct bb_request *rq, json_t *errors, size_t index, const char *text)
{
    return json_array_append_new(
        errors,
        json_pack("{s:s, s:s}", "field", bb_format(rq, "deviceIds[%zu]", index), "problem", text));
}

/* Devices of other organisations are as unknown as those that there are not. */
static int check_devices(struct bb_request *rq, const struct group *group)
{
    const struct certificate *certificate = rq->state;
    struct bb_device *devices = NULL;

    if (certificate->devices->get(certificate->devices_state, rq, group->devices, group->count,
                                  &devices))
        return bb_failed(rq);
    json_t *errors = json_array();

    for (size_t i = 0; i < group->count; i++)
        if (!devices[i].size || devices[i].organisation != group->organisation)
            problem(rq, errors, i, "is no device of the organisation");
    if (json_array_size(errors))
        return bb_refuse(rq, errors);
    json_decref(errors);
    return 0;
}

/* 5.0 is taken for 5, as elsewhere; 0: no id. */
static int64_t item_id(const json_t *item)
{
    double real = json_real_value(item);

    if (json_is_real(item) && real >= 1 && real <= ID_MOST && real == trunc(real))
        return (int64_t)real;
    return json_integer_value(item);
}

/* What came as a number is an id; the rest goes into `keys`, a place of them into `places`. */
static int read_ids(struct bb_request *rq, struct group *group, const json_t *sent, json_t *keys,
                    size_t *places)
{
    json_t *errors = json_array();

    for (size_t i = 0; i < group->count; i++) {
        json_t *item = json_array_get(sent, i);

        group->devices[i] = item_id(item);
        places[json_array_size(keys)] = i;
        if (json_is_string(item))
            json_array_append(keys, item);
        else if (group->devices[i] < 1)
            problem(rq, errors, i, "must be an id, a uuid or an externalId");
    }
    if (json_array_size(errors))
        return bb_refuse(rq, errors);
    json_decref(errors);
    return 0;
}

static int read_devices(struct bb_request *rq, struct group *group, const json_t *sent)
{
    const struct certificate *certificate = rq->state;
    size_t *places = bb_alloc(rq, (group->count + 1) * sizeof(*places));
    json_t *keys = json_array();
    int64_t *ids = NULL;
    int refused = read_ids(rq, group, sent, keys, places);
    size_t count = json_array_size(keys);

    if (!refused && count &&
        certificate->devices->resolve(certificate->devices_state, rq, keys, group->organisation,
                                      &ids))
        refused = bb_failed(rq);
    for (size_t i = 0; !refused && i < count; i++)
        group->devices[places[i]] = ids[i];
    json_decref(keys);
    return refused ? refused : check_devices(rq, group);
}

static int read_times(struct bb_request *rq, struct group *group)
{
    const struct bb_rows *rows =
        bb_query(rq, &times, BB_ARGS(bb_t(bb_text(rq, "start")), bb_t(bb_text(rq, "end"))));

    if (!rows)
        return bb_failed(rq);
    group->start = bb_cell_int(rq, rows, 0, 0);
    group->end = bb_cell_int(rq, rows, 0, 1);
    group->ends = bb_text(rq, "end") != NULL;
    if (group->ends && group->end <= group->start)
        return bb_invalid(rq, "end", "must be later than start");
    return 0;
}

static int read_group(struct bb_request *rq, struct group *group)
{
    json_t *body = bb_body(rq), *ids = json_object_get(body, "deviceIds");
    int refused = certificate_home(rq, bb_given_int(rq, "organizationId", 0), &group->organisation);

    if (!refused)
        refused = read_times(rq, group);
    if (refused)
        return refused;
    group->count = json_array_size(ids);
    group->devices = bb_alloc(rq, group->count * sizeof(*group->devices));
    return read_devices(rq, group, ids);
}

static json_t *answer(struct bb_request *rq, const struct group *group)
{
    json_t *end = group->ends ? json_string(bb_time_text(rq, group->end)) : json_null();
    json_t *ids = json_array();

    for (size_t i = 0; i < group->count; i++)
        if (json_array_append_new(ids, json_integer(group->devices[i]))) {
            json_decref(end);
            json_decref(ids);
            return NULL;
        }
    return json_pack("{s:I, s:s, s:s, s:s, s:o, s:o, s:I, s:i, s:s}", "id", (json_int_t)group->id,
                     "name", bb_text(rq, "name"), "frequency", bb_text(rq, "frequency"), "start",
                     bb_time_text(rq, group->start), "end", end, "deviceIds", ids, "organizationId",
                     (json_int_t)group->organisation, "carriedWatthour", 0, "createdAt",
                     bb_time_text(rq, group->created));
}

/* The unit failed: because a device is in a group already, or is in the list twice? */
static int refused(struct bb_request *rq, const struct group *group)
{
    if (strcmp(bb_constraint(rq), "certificate_member_once") != 0)
        return bb_failed(rq);
    const struct bb_rows *rows =
        bb_query(rq, &taken, BB_ARGS(bb_ints(group->devices, group->count)));

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

static int add(struct bb_request *rq, struct bb_tx *unit, const struct group *group)
{
    const char *end = group->ends ? bb_time_text(rq, group->end) : NULL;
    struct bb_value devices = bb_ints(group->devices, group->count);

    if (bb_add(rq, unit, &make,
               BB_ARGS(bb_i(group->id), bb_i(group->organisation), bb_t(bb_text(rq, "name")),
                       bb_t(bb_text(rq, "frequency")), bb_t(bb_time_text(rq, group->start)),
                       bb_t(end), bb_t(bb_time_text(rq, group->created)))) < 0)
        return -1;
    if (bb_add(rq, unit, &join, BB_ARGS(bb_i(group->id), devices)) < 0)
        return -1;
    return bb_add(rq, unit, &look, BB_ARGS(devices)) < 0 ? -1 : 0;
}

int certificate_group_create(struct bb_request *rq)
{
    struct group group = {.created = bb_wall_ms(rq->host)};
    int answered = read_group(rq, &group);

    if (answered)
        return answered;
    group.id = bb_next_id(rq, "certificate_group_id");
    if (group.id < 0)
        return bb_failed(rq);
    struct bb_tx *unit = bb_unit(rq, (uint64_t)group.organisation);
    json_t *json = answer(rq, &group);

    if (!json)
        return certificate_reply(rq, 503, NULL);
    if (!unit || add(rq, unit, &group)) {
        json_decref(json);
        return bb_failed(rq);
    }
    int status = bb_commit(rq, unit, 201, json);

    return status ? status : refused(rq, &group);
}
