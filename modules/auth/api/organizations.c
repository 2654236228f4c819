/*
 * Organizations and the ApiUsers that act for them: an ApiUser creates its own, or an Admin links
 * one. The organizations are part of the principal, so a change drops the account's cache entries.
 */
#include "modules/auth/api/api.h"

#define ORGANIZATION_COLUMNS "o.id, o.name, o.type, o.address, o.api_user, " BB_SQL_MS("o.created")

static json_t *organization_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    static const struct bb_column columns[] = {
        {"id", BB_COLUMN_INT, 0},       {"name", BB_COLUMN_TEXT, 1},
        {"type", BB_COLUMN_TEXT, 2},    {"address", BB_COLUMN_TEXT, 3},
        {"apiUserId", BB_COLUMN_ID, 4}, {"createdAt", BB_COLUMN_TIME, 5},
    };

    return BB_ROW_JSON(rq, rows, row, columns);
}

static const char *account_payload(struct bb_request *rq, int64_t account)
{
    return bb_format(rq, "account:%lld", (long long)account);
}

static int create(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql insert = {
        "INSERT INTO auth_organisation AS o (name, type, address, api_user) "
        "VALUES (btrim($1), 'Developer', $2, $3::bigint) ON CONFLICT DO NOTHING "
        "RETURNING " ORGANIZATION_COLUMNS,
        0};
    struct bb_rows *rows =
        bb_tx_query(rq, tx, &insert,
                    BB_ARGS(bb_t(bb_text(rq, "name")), bb_t(bb_text(rq, "address")),
                            bb_i(rq->principal->account)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 409, "An organization with this name already exists");
    if (bb_notify(rq, tx, AUTH_CHANNEL, arg))
        return bb_failed(rq);
    return bb_reply(rq, 201, organization_json(rq, rows, 0));
}

int auth_organization_create(struct bb_request *rq)
{
    const char *payload = account_payload(rq, rq->principal->account);
    int status = bb_transaction(rq, create, (void *)(uintptr_t)payload);

    auth_changed(rq->state, payload);
    return status;
}

struct link {
    int64_t before, after; /* accounts; 0: none */
};

/* Checks that the account may act for organizations. Returns 0, or the status of the response. */
static int check_api_user(struct bb_request *rq, struct bb_tx *tx, int64_t account)
{
    static const struct bb_sql find = {
        "SELECT FROM auth_account WHERE id = $1::bigint AND role = 'ApiUser' "
        "AND status <> 'Deleted' FOR SHARE",
        0};

    if (!account)
        return 0;

    struct bb_rows *rows = bb_tx_query(rq, tx, &find, BB_ARGS(bb_i(account)));

    if (!rows)
        return bb_failed(rq);
    return bb_count(rq, rows) ? 0 : bb_invalid(rq, "apiUserId", "must be the id of an ApiUser");
}

static int link_organization(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql lock = {
        "SELECT api_user FROM auth_organisation WHERE id = $1::bigint FOR UPDATE", 0};
    static const struct bb_sql update = {
        "UPDATE auth_organisation o SET api_user = nullif($2::bigint, 0) WHERE id = $1::bigint "
        "RETURNING " ORGANIZATION_COLUMNS,
        0};
    struct link *link = arg;
    int64_t id = bb_segment_int(rq, "id");
    int status = check_api_user(rq, tx, link->after);

    if (status)
        return status;

    struct bb_rows *rows = bb_tx_query(rq, tx, &lock, BB_ARGS(bb_i(id)));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "No such organization");
    link->before = bb_cell_int(rq, rows, 0, 0);
    rows = bb_tx_query(rq, tx, &update, BB_ARGS(bb_i(id), bb_i(link->after)));
    if (!rows ||
        (link->before && bb_notify(rq, tx, AUTH_CHANNEL, account_payload(rq, link->before))) ||
        (link->after && bb_notify(rq, tx, AUTH_CHANNEL, account_payload(rq, link->after))))
        return bb_failed(rq);
    return bb_reply(rq, 200, organization_json(rq, rows, 0));
}

int auth_organization_link(struct bb_request *rq)
{
    struct link link = {.after = json_integer_value(json_object_get(bb_body(rq), "apiUserId"))};
    int status = bb_transaction(rq, link_organization, &link);

    if (link.before)
        auth_changed(rq->state, account_payload(rq, link.before));
    if (link.after)
        auth_changed(rq->state, account_payload(rq, link.after));
    return status;
}

int auth_organization_list(struct bb_request *rq)
{
    static const struct bb_sql list = {"SELECT " ORGANIZATION_COLUMNS
                                       " FROM auth_organisation o WHERE o.id > $1::bigint "
                                       "ORDER BY o.id LIMIT $2::bigint",
                                       BB_SQL_LONG};
    struct bb_rows *rows = bb_query(
        rq, &list, BB_ARGS(bb_i(bb_arg_int(rq, "after", 0)), bb_i(auth_page_limit(rq) + 1)));

    return rows ? bb_reply_rows(rq, rows, (size_t)auth_page_limit(rq), 0, organization_json)
                : bb_failed(rq);
}
