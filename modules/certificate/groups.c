/*
 * /api/device-group: groups of devices whose Delta readings are issued together, their members, and
 * the organizations with which they are shared.
 *
 * Joining and leaving take effect with the next cycle. Both are functions in schema.sql, so that
 * each of their statements sees what was committed while an earlier statement waited for a lock. A
 * device's energy in a running or ended cycle stays with the group in which the device was then.
 * The job processes the readings that the devices of a new group already have.
 *
 * Accounts of an organization with which a group is shared can list the group and read its
 * certificates by its groupId, and no other data of the owner.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "modules/certificate/certificate.h"

#define PAGE 100
#define PAGE_BYTES (1024 * 1024)   /* limit for the device ids of a page */
#define ID_MOST 9007199254740992.0 /* 2^53: doubles are exact up to this number */

/* clang-format off */

#define COLUMNS                                                                                    \
    "e.id, e.name, e.frequency, " BB_SQL_MS("e.start_at") " AS start,"                             \
    " " BB_SQL_MS("e.end_at") " AS stop, (SELECT coalesce(json_agg(m.device ORDER BY m.device),"   \
    " '[]') FROM certificate_member m WHERE m.group_id = e.id)::text AS devices,"                  \
    " e.organisation, e.carry_wh, " BB_SQL_MS("e.created_at") " AS made"

/*
 * $1 and $2 scope, $3 id of the last group seen, $4 number of groups, $5 limit of bytes; the group
 * that reaches the limit is the last one
 */
static const struct bb_sql list = {
    "SELECT * FROM (SELECT q.*, count(*) OVER () AS found,"
    " sum(octet_length(q.devices)) OVER (ORDER BY q.id) AS upto FROM ("
    "SELECT " COLUMNS " FROM certificate_group e WHERE " CERTIFICATE_SEES
    " AND e.id > $3::bigint ORDER BY e.id LIMIT $4::bigint"
    ") q) p WHERE upto - octet_length(devices) < $5::bigint ORDER BY id",
    BB_SQL_LIST};

/* $1 group. Has BB_SQL_LONG, because a group may have thousands of devices. */
static const struct bb_sql get = {
    "SELECT " COLUMNS " FROM certificate_group e WHERE e.id = $1::bigint", BB_SQL_LONG};

/* $1 and $2 scope, $3 group. Returns the group's organization. */
static const struct bb_sql find = {
    "SELECT e.organisation FROM certificate_group e WHERE " CERTIFICATE_SEES
    " AND e.id = $3::bigint",
    0};

/* $1 organization, $2 name, $3 frequency, $4 start, $5 end or null */
static const struct bb_sql make = {
    "INSERT INTO certificate_group (id, organisation, name, frequency, start_at, end_at,"
    " created_at) VALUES (nextval('certificate_group_id'), $1::bigint, $2, $3,"
    " date_trunc('milliseconds', $4::timestamptz), date_trunc('milliseconds', $5::timestamptz),"
    " now()) RETURNING id",
    BB_SQL_WRITE};

/* $1 group, $2 devices, $3 whether they take part in cycles that have begun */
static const struct bb_sql join = {
    "SELECT certificate_join($1::bigint, $2::bigint[], $3::boolean)", BB_SQL_WRITE};

/* $1 device, $2 group */
static const struct bb_sql leave = {
    "SELECT certificate_leave($1::bigint, $2::bigint)::int", BB_SQL_WRITE};

/* $1 devices. Returns the indexes of the devices that are in a group which has not ended. */
static const struct bb_sql taken = {
    "SELECT t.place - 1 FROM unnest($1::bigint[]) WITH ORDINALITY AS t (device, place)"
    " JOIN certificate_member m ON m.device = t.device JOIN certificate_group g"
    " ON g.id = m.group_id WHERE g.end_at IS NULL OR g.end_at > now() ORDER BY t.place",
    0};

/* $1 group, $2 name, $3 end (infinity: none); null leaves the name or the end unchanged */
static const struct bb_sql change = {
    "SELECT certificate_change($1::bigint, $2, $3::timestamptz)", BB_SQL_WRITE};

static const struct bb_sql forget = {
    "SELECT busbar_require(certificate_group_forget($1::bigint), 409,"
    " 'Conflict: energy of the group was certified or is carried. Set its end instead')",
    BB_SQL_WRITE};

static const struct bb_sql shares = {
    "SELECT s.organisation, " BB_SQL_MS("s.created_at") " FROM certificate_share s"
    " WHERE s.group_id = $1::bigint ORDER BY s.organisation",
    0};

/* $1 and $2 scope, $3 id of the last group seen, $4 number of groups */
static const struct bb_sql shared = {
    "SELECT g.id, g.name, g.frequency, " BB_SQL_MS("g.start_at") ", " BB_SQL_MS("g.end_at")
    ", g.organisation, " BB_SQL_MS("min(e.created_at)") " FROM certificate_share e"
    " JOIN certificate_group g ON g.id = e.group_id WHERE " CERTIFICATE_SEES
    " AND g.id > $3::bigint GROUP BY g.id ORDER BY g.id LIMIT $4::bigint",
    0};

/* $1 group, $2 organization */
static const struct bb_sql share = {
    "INSERT INTO certificate_share (group_id, organisation, created_at)"
    " SELECT g.id, $2::bigint, now() FROM certificate_group g WHERE g.id = $1::bigint"
    " AND g.organisation <> $2::bigint ON CONFLICT DO NOTHING",
    BB_SQL_WRITE};
static const struct bb_sql unshare = {
    "DELETE FROM certificate_share WHERE group_id = $1::bigint AND organisation = $2::bigint",
    BB_SQL_WRITE};

/* $1 group, $2 organizations */
static const struct bb_sql owner = {
    "SELECT g.organisation FROM certificate_group g JOIN certificate_share s ON s.group_id = g.id"
    " WHERE g.id = $1::bigint AND s.organisation = ANY ($2::bigint[]) LIMIT 1",
    0};

/* clang-format on */

/* ---- reading ---- */

static json_t *group_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    return BB_ROW_FIELDS(rq, rows, row, 0, certificate_group_fields);
}

/* Returns the organization of the path's group. Ends the request if the caller may not see it. */
static int64_t group_find(struct bb_request *rq)
{
    struct scope scope = scope_asked(rq);
    const struct bb_rows *rows = bb_find_or_end(
        rq, &find, BB_ARGS(SCOPE_ARGS(&scope), bb_i(bb_segment_int(rq, "id"))), "Device group");

    return bb_cell_int(rq, rows, 0, 0);
}

/* Responds with the group whose id is in the path. */
static int group_reply(struct bb_request *rq)
{
    const struct bb_rows *rows =
        bb_find_or_end(rq, &get, BB_ARGS(bb_i(bb_segment_int(rq, "id"))), "Device group");

    return bb_reply(rq, 200, group_json(rq, rows, 0));
}

int certificate_group_list(struct bb_request *rq)
{
    size_t limit = (size_t)bb_arg_int(rq, "limit", PAGE);
    struct scope scope = scope_asked(rq);
    const struct bb_rows *rows =
        bb_query_or_end(rq, &list,
                        BB_ARGS(SCOPE_ARGS(&scope), bb_i(bb_arg_int(rq, "after", 0)),
                                bb_i((int64_t)limit + 1), bb_i(PAGE_BYTES)));
    size_t count = bb_count(rq, rows) > limit ? limit : bb_count(rq, rows);
    bool more = count && count < (size_t)bb_cell_int(rq, rows, 0, 9);

    return bb_reply_page(rq, rows, count, more ? bb_cell(rq, rows, count - 1, 0) : NULL,
                         group_json);
}

int certificate_group_get(struct bb_request *rq)
{
    group_find(rq);
    return group_reply(rq);
}

/* ---- members ---- */

static void group_problem(struct bb_request *rq, json_t *errors, size_t index, const char *text)
{
    bb_push(
        rq, errors,
        json_pack("{s:s, s:s}", "field", bb_format(rq, "deviceIds[%zu]", index), "problem", text));
}

/*
 * Sets *ids and *count to the devices that `deviceIds` in the body names. A number is an id (5.0
 * means 5), a text is an externalId, uuid or id. Ends the request if an entry does not name a
 * device of the organization.
 */
static void group_devices(struct bb_request *rq, int64_t organization, int64_t **ids, size_t *count)
{
    const struct certificate *certificate = rq->state;
    const json_t *sent = json_object_get(bb_body(rq), "deviceIds");
    json_t *keys = bb_hold(rq, json_array()), *errors = bb_hold(rq, json_array());
    int64_t *found = NULL;
    struct bb_device *devices;

    *count = json_array_size(sent);
    *ids = bb_alloc(rq, *count * sizeof(**ids));
    size_t *places = bb_alloc(rq, (*count + 1) * sizeof(*places)); /* index in `sent` of each key */

    for (size_t i = 0; i < *count; i++) {
        json_t *item = json_array_get(sent, i);
        double real = json_real_value(item);
        bool whole = real >= 1 && real <= ID_MOST && real == trunc(real);

        (*ids)[i] = whole ? (int64_t)real : json_integer_value(item);
        places[json_array_size(keys)] = i;
        if (json_is_string(item))
            bb_push(rq, keys, json_incref(item));
        else if ((*ids)[i] < 1)
            group_problem(rq, errors, i, "must be an id, a uuid or an externalId");
    }
    if (json_array_size(errors))
        bb_end(rq, bb_refuse(rq, json_incref(errors)));
    if (json_array_size(keys) &&
        certificate->devices->resolve(certificate->devices_state, rq, keys, organization, &found))
        bb_end(rq, bb_failed(rq));
    for (size_t i = 0; found && i < json_array_size(keys); i++)
        (*ids)[places[i]] = found[i];
    if (certificate->devices->get(certificate->devices_state, rq, *ids, *count, &devices))
        bb_end(rq, bb_failed(rq));
    for (size_t i = 0; i < *count; i++)
        if (!devices[i].size || devices[i].organization != organization)
            group_problem(rq, errors, i, "is not a device of the organization");
    if (json_array_size(errors))
        bb_end(rq, bb_refuse(rq, json_incref(errors)));
}

/* Responds with the reason why `join` failed, such as a device that is already in a group. */
static int group_taken(struct bb_request *rq, const int64_t *devices, size_t count)
{
    if (strcmp(bb_constraint(rq), "certificate_member_once") != 0)
        return bb_failed(rq);
    const struct bb_rows *rows = bb_query_or_end(rq, &taken, BB_ARGS(bb_ints(devices, count)));

    if (!bb_count(rq, rows))
        return bb_invalid(rq, "deviceIds", "must not contain a device twice");
    json_t *errors = bb_hold(rq, json_array());

    for (size_t i = 0; i < bb_count(rq, rows); i++)
        group_problem(rq, errors, (size_t)bb_cell_int(rq, rows, i, 0), "is already in a group");
    return bb_fail_listed(rq, 409, json_incref(errors), "A device can be in one group only");
}

int certificate_group_join(struct bb_request *rq)
{
    int64_t *devices;
    size_t count;

    group_devices(rq, group_find(rq), &devices, &count);
    if (!bb_query(rq, &join,
                  BB_ARGS(bb_i(bb_segment_int(rq, "id")), bb_ints(devices, count), bb_b(false))))
        return group_taken(rq, devices, count);
    return group_reply(rq);
}

/* A deviceId of up to 18 digits is an id; any other deviceId is an externalId or uuid. */
int certificate_group_leave(struct bb_request *rq)
{
    const struct certificate *certificate = rq->state;
    const char *key = bb_segment(rq, "deviceId");
    int64_t organization = group_find(rq), id = 0, *found = &id;

    if (strspn(key, "0123456789") == strlen(key) && strlen(key) < 19) {
        id = strtoimax(key, NULL, 10);
    } else {
        const json_t *keys = bb_hold(rq, json_pack("[s]", key));

        if (certificate->devices->resolve(certificate->devices_state, rq, keys, organization,
                                          &found))
            return bb_failed(rq);
    }
    const struct bb_rows *rows =
        bb_query_or_end(rq, &leave, BB_ARGS(bb_i(*found), bb_i(bb_segment_int(rq, "id"))));

    if (!bb_cell_int(rq, rows, 0, 0))
        return bb_fail(rq, 404, "The device is not in the group");
    return group_reply(rq);
}

/* ---- creating, changing and deleting ---- */

struct group_new {
    int64_t organization, *devices;
    size_t count;
};

static int group_make(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct group_new *made = arg;
    const struct bb_rows *rows = bb_tx_query(
        rq, tx, &make,
        BB_ARGS(bb_i(made->organization), bb_t(bb_text(rq, "name")), bb_t(bb_text(rq, "frequency")),
                bb_t(bb_text(rq, "start")), bb_t(bb_text(rq, "end"))));

    if (!rows)
        return strcmp(bb_constraint(rq), "certificate_group_end")
                   ? bb_failed(rq)
                   : bb_invalid(rq, "end", "must be later than start");
    struct bb_value id = bb_i(bb_cell_int(rq, rows, 0, 0));

    if (!bb_tx_query(rq, tx, &join, BB_ARGS(id, bb_ints(made->devices, made->count), bb_b(true))))
        return group_taken(rq, made->devices, made->count);
    rows = bb_tx_query_or_end(rq, tx, &get, &id, 1);
    return bb_reply(rq, 201, group_json(rq, rows, 0));
}

int certificate_group_create(struct bb_request *rq)
{
    struct group_new made = {.count = 0};
    int refused = bb_home(rq, bb_given_int(rq, "organizationId", 0), &made.organization);

    if (refused)
        return refused;
    if (rq->principal->role == BB_ROLE_ADMIN) /* other roles can only name existing ones */
        organization_check(rq, made.organization);
    group_devices(rq, made.organization, &made.devices, &made.count);
    return bb_transaction(rq, group_make, &made);
}

int certificate_group_change(struct bb_request *rq)
{
    const char *name = bb_text(rq, "name"), *end = bb_text(rq, "end");

    group_find(rq);
    if (json_is_null(json_object_get(bb_body(rq), "end")))
        end = "infinity";
    if (!name && !end)
        return bb_invalid(rq, "name", "is required, unless end is sent");
    bb_query_or_end(rq, &change, BB_ARGS(bb_i(bb_segment_int(rq, "id")), bb_t(name), bb_t(end)));
    return group_reply(rq);
}

int certificate_group_delete(struct bb_request *rq)
{
    group_find(rq);
    bb_query_or_end(rq, &forget, BB_ARGS(bb_i(bb_segment_int(rq, "id"))));
    return bb_reply(rq, 200, json_pack("{s:b}", "success", 1));
}

/* ---- sharing ---- */

int certificate_group_shared(struct bb_request *rq)
{
    size_t limit = (size_t)bb_arg_int(rq, "limit", PAGE);
    struct scope scope = scope_asked(rq);
    const struct bb_rows *rows = bb_query_or_end(
        rq, &shared,
        BB_ARGS(SCOPE_ARGS(&scope), bb_i(bb_arg_int(rq, "after", 0)), bb_i((int64_t)limit + 1)));

    return bb_reply_fields(rq, rows, limit, 0, certificate_shared_fields, 7);
}

/* Runs `sql` unless it is NULL. Responds with the organizations with which the group is shared. */
static int group_share_with(struct bb_request *rq, const struct bb_sql *sql, int64_t organization)
{
    struct bb_value group = bb_i(bb_segment_int(rq, "id"));

    group_find(rq);
    if (sql)
        bb_query_or_end(rq, sql, BB_ARGS(group, bb_i(organization)));
    return bb_reply_fields(rq, bb_query_or_end(rq, &shares, &group, 1), SIZE_MAX, 0,
                           certificate_share_fields, 2);
}

int certificate_group_shares(struct bb_request *rq)
{
    return group_share_with(rq, NULL, 0);
}

int certificate_group_share(struct bb_request *rq)
{
    int64_t with = json_integer_value(json_object_get(bb_body(rq), "organizationId"));

    organization_check(rq, with);
    return group_share_with(rq, &share, with);
}

int certificate_group_unshare(struct bb_request *rq)
{
    return group_share_with(rq, &unshare, bb_segment_int(rq, "organizationId"));
}

void certificate_shared(struct bb_request *rq, int64_t group, struct scope *scope)
{
    if (!group || scope->all)
        return;
    const struct bb_rows *rows = bb_query_or_end(
        rq, &owner, BB_ARGS(bb_i(group), bb_ints(scope->organizations, scope->count)));

    if (bb_count(rq, rows)) {
        scope->organizations = certificate_ids(rq, rows, 1, 0);
        scope->count = 1;
    }
}
