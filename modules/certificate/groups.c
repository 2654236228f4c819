/*
 * POST /api/device-group: a group of devices whose Delta readings are issued together, with its
 * frequency. The next run of the job processes the readings that the devices already have.
 */
#include "modules/certificate/base/certificate.h"

struct group {
    int64_t id, organization;
    int64_t start, end, created; /* ms since 1970 */
    bool ends;
    int64_t *devices;
    size_t count;
};

/* $1 $2 start and end, as sent */
static const struct bb_sql times = {
    "SELECT " CERTIFICATE_MS("$1::timestamptz") ", " CERTIFICATE_MS("$2::timestamptz"), 0};

static const struct bb_sql make = {
    "INSERT INTO certificate_group (id, organisation, name, frequency, start_at, end_at, "
    "created_at)"
    " VALUES ($1::bigint, $2::bigint, $3, $4, $5::timestamptz, $6::timestamptz, $7::timestamptz)",
    BB_SQL_WRITE};
static const struct bb_sql join = {"SELECT certificate_join($1::bigint, $2::bigint[], true)",
                                   BB_SQL_WRITE};

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
    int refused = certificate_home(rq, bb_given_int(rq, "organizationId", 0), &group->organization);

    if (!refused)
        refused = read_times(rq, group);
    if (refused)
        return refused;
    return certificate_group_devices(rq, group->organization, ids, &group->devices, &group->count);
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
                     (json_int_t)group->organization, "carriedWatthour", 0, "createdAt",
                     bb_time_text(rq, group->created));
}

static int add(struct bb_request *rq, struct bb_tx *unit, const struct group *group)
{
    const char *end = group->ends ? bb_time_text(rq, group->end) : NULL;
    struct bb_value devices = bb_ints(group->devices, group->count);

    if (bb_add(rq, unit, &make,
               BB_ARGS(bb_i(group->id), bb_i(group->organization), bb_t(bb_text(rq, "name")),
                       bb_t(bb_text(rq, "frequency")), bb_t(bb_time_text(rq, group->start)),
                       bb_t(end), bb_t(bb_time_text(rq, group->created)))) < 0)
        return -1;
    return bb_add(rq, unit, &join, BB_ARGS(bb_i(group->id), devices)) < 0 ? -1 : 0;
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
    struct bb_tx *unit = bb_unit(rq, (uint64_t)group.organization);
    json_t *json = answer(rq, &group);

    if (!json)
        return certificate_reply(rq, 503, NULL);
    if (!unit || add(rq, unit, &group)) {
        json_decref(json);
        return bb_failed(rq);
    }
    int status = bb_commit(rq, unit, 201, json);

    return status ? status : certificate_group_taken(rq, group.devices, group.count);
}
