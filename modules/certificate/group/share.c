/*
 * /api/device-group/:id/share: the organizations with which the owner shares a group. Accounts of
 * such an organization can read the group's certificates by its groupId, and no other data of the
 * owner.
 */
#include "modules/certificate/base/certificate.h"

/* $1 $2 scope, $3 group */
static const struct bb_sql list = {
    "SELECT s.organisation, " CERTIFICATE_MS(
        "s.created_at") " FROM certificate_group e LEFT JOIN certificate_share s"
                        " ON s.group_id = e.id WHERE " CERTIFICATE_SEES
                        " AND e.id = $3::bigint ORDER BY s.organisation",
    0};

/* $1 $2 scope, $3 group, $4 organization */
static const struct bb_sql share = {
    "INSERT INTO certificate_share (group_id, organisation, created_at)"
    " SELECT e.id, $4::bigint, now() FROM certificate_group e WHERE " CERTIFICATE_SEES
    " AND e.id = $3::bigint AND e.organisation <> $4::bigint ON CONFLICT DO NOTHING",
    BB_SQL_WRITE};
static const struct bb_sql unshare = {
    "DELETE FROM certificate_share s USING certificate_group e WHERE " CERTIFICATE_SEES
    " AND e.id = $3::bigint AND s.group_id = e.id AND s.organisation = $4::bigint",
    BB_SQL_WRITE};

/*
 * A group without shares is a row of nulls. There is no row if the group does not exist or belongs
 * to others.
 */
static int answer(struct bb_request *rq, const struct certificate_scope *scope)
{
    const struct bb_rows *rows =
        bb_query(rq, &list, BB_ARGS(CERTIFICATE_SCOPE_ARGS(scope), bb_i(bb_segment_int(rq, "id"))));
    json_t *array;

    if (!rows)
        return bb_failed(rq);
    if (!bb_count(rq, rows))
        return bb_fail(rq, 404, "Device group not found");
    array = json_array();
    for (size_t row = 0; row < bb_count(rq, rows); row++)
        if (bb_cell(rq, rows, row, 0) &&
            json_array_append_new(array,
                                  json_pack("{s:I, s:s}", "organizationId",
                                            (json_int_t)bb_cell_int(rq, rows, row, 0), "sharedAt",
                                            bb_time_text(rq, bb_cell_int(rq, rows, row, 1))))) {
            json_decref(array);
            return certificate_reply(rq, 503, NULL);
        }
    return certificate_reply(rq, 200, array);
}

static int change(struct bb_request *rq, const struct bb_sql *sql, int64_t organization)
{
    struct certificate_scope scope;
    int refused = certificate_scope(rq, bb_arg_int(rq, "organizationId", 0), &scope);

    if (refused)
        return refused;
    if (!bb_query(rq, sql,
                  BB_ARGS(CERTIFICATE_SCOPE_ARGS(&scope), bb_i(bb_segment_int(rq, "id")),
                          bb_i(organization))))
        return bb_failed(rq);
    return answer(rq, &scope);
}

int certificate_group_shares(struct bb_request *rq)
{
    struct certificate_scope scope;
    int refused = certificate_scope(rq, bb_arg_int(rq, "organizationId", 0), &scope);

    return refused ? refused : answer(rq, &scope);
}

int certificate_group_share(struct bb_request *rq)
{
    const struct certificate *certificate = rq->state;
    int64_t with = json_integer_value(json_object_get(bb_body(rq), "organizationId"));
    int known = certificate->accounts->organization_known(certificate->accounts_state, rq, with);

    if (known < 0)
        return bb_failed(rq);
    return known ? change(rq, &share, with) : bb_fail(rq, 404, "Organization not found");
}

int certificate_group_unshare(struct bb_request *rq)
{
    return change(rq, &unshare, bb_segment_int(rq, "organizationId"));
}

/* $1 group, $2 organizations */
static const struct bb_sql owner = {
    "SELECT g.organisation FROM certificate_group g JOIN certificate_share s ON s.group_id = g.id"
    " WHERE g.id = $1::bigint AND s.organisation = ANY ($2::bigint[]) LIMIT 1",
    0};

int certificate_shared(struct bb_request *rq, int64_t group, struct certificate_scope *scope)
{
    if (!group || scope->all)
        return 0;
    const struct bb_rows *rows =
        bb_query(rq, &owner, BB_ARGS(bb_i(group), bb_ints(scope->organizations, scope->count)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows)) {
        int64_t *organization = bb_alloc(rq, sizeof(*organization));

        *organization = bb_cell_int(rq, rows, 0, 0);
        scope->organizations = organization;
        scope->count = 1;
    }
    return 0;
}
