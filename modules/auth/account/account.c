/* Rows of accounts: reading, writing, and their JSON; and the service "accounts". */
#include <string.h>

#include "modules/auth/account/auth.h"

unsigned auth_role_bit(const char *name)
{
    for (unsigned bit = 1; bit < BB_ANY_ROLE; bit <<= 1)
        if (strcmp(bb_role_name(bit), name) == 0)
            return bit;
    return 0;
}

int auth_unauthorized(struct bb_request *rq, const char *text)
{
    bb_reply_header(rq, "WWW-Authenticate", "Bearer error=\"invalid_token\"");
    return bb_fail(rq, 401, "%s", text);
}

int auth_account_may_act(struct bb_request *rq, const char *status)
{
    if (strcmp(status, "Active") == 0)
        return 0;
    if (strcmp(status, "Pending") == 0)
        return bb_fail(rq, 403,
                       "Your account is pending approval. An administrator has to approve it "
                       "first.");
    if (strcmp(status, "Suspended") == 0)
        return bb_fail(rq, 403,
                       "Your account has been suspended. Please contact an administrator.");
    return auth_unauthorized(rq, "Unauthorized");
}

json_t *auth_account_json(struct bb_request *rq, const struct bb_rows *rows, size_t row)
{
    static const struct bb_column columns[] = {
        {"id", BB_COLUMN_INT, 0},
        {"email", BB_COLUMN_TEXT, 1},
        {"firstName", BB_COLUMN_TEXT, 2},
        {"lastName", BB_COLUMN_TEXT, 3},
        {"role", BB_COLUMN_TEXT, 4},
        {"status", BB_COLUMN_TEXT, 5},
        {"organizationId", BB_COLUMN_ID, 6},
        {"createdAt", BB_COLUMN_TIME, 7},
    };

    return BB_ROW_JSON(rq, rows, row, columns);
}

#define BY_EMAIL(email, network)                                                                   \
    "SELECT a.id, a.role, a.status, a.password, o.seen > now() - interval '90 days' AS known, "    \
    "o.seen > now() - interval '1 day' AS seen FROM auth_account a LEFT JOIN auth_origin o "       \
    "ON o.account = a.id AND o.network = " network " WHERE a.email = " email

#define LOGINS BB_KEYS_2("text", "text") " k(email, network, i)"
#define OF_LOGIN BY_EMAIL("k.email", "k.network")

static const struct bb_keyed by_email = {
    {BY_EMAIL("$1::text", "$2::text"), BB_SQL_KEYED},
    {"SELECT a.*, k.i FROM " LOGINS " CROSS JOIN LATERAL (" OF_LOGIN " OFFSET 0) a", 0},
};

int auth_account_find(struct bb_request *rq, const char *email, const char *network,
                      struct auth_account *account)
{
    struct bb_rows *rows = bb_query(rq, &by_email.one, BB_ARGS(bb_t(email), bb_t(network)));

    if (!rows)
        return -1;
    if (bb_count(rq, rows) == 0)
        return 0;
    *account = (struct auth_account){
        .id = bb_cell_int(rq, rows, 0, 0),
        .role = bb_cell(rq, rows, 0, 1),
        .status = bb_cell(rq, rows, 0, 2),
        .password = bb_cell(rq, rows, 0, 3),
        .known_here = bb_cell_int(rq, rows, 0, 4) != 0,
        .seen_here = bb_cell_int(rq, rows, 0, 5) != 0,
    };
    return 1;
}

/* Finds or creates the organization, sets *id; 0: it exists and may not be joined, -1: failed. */
static int organization_for(struct bb_request *rq, struct bb_tx *tx,
                            const struct auth_new_account *account, int64_t *id)
{
    static const struct bb_sql insert = {
        "INSERT INTO auth_organisation (name, type) VALUES (btrim($1), $2) "
        "ON CONFLICT DO NOTHING RETURNING id",
        0};
    static const struct bb_sql find = {
        "SELECT id FROM auth_organisation WHERE busbar_fold(name) = busbar_fold(btrim($1))", 0};
    struct bb_rows *rows = bb_tx_query(
        rq, tx, &insert, BB_ARGS(bb_t(account->organization), bb_t(account->organization_type)));

    if (rows && bb_count(rq, rows) == 0 && account->join)
        rows = bb_tx_query(rq, tx, &find, BB_ARGS(bb_t(account->organization)));
    if (!rows)
        return -1;
    if (bb_count(rq, rows) == 0)
        return 0;
    *id = bb_cell_int(rq, rows, 0, 0);
    return 1;
}

int auth_account_insert(struct bb_request *rq, struct bb_tx *tx,
                        const struct auth_new_account *account, struct bb_rows **rows)
{
    static const struct bb_sql insert = {
        "INSERT INTO auth_account AS a (email, first_name, last_name, password, role, status, "
        "organisation, approved) VALUES ($1, $2, $3, $4, $5, $6, nullif($7::bigint, 0), "
        "CASE WHEN $6 <> 'Pending' THEN now() END) "
        "ON CONFLICT (email) DO NOTHING RETURNING " ACCOUNT_COLUMNS,
        0};
    int64_t organization = 0;

    if (account->organization) {
        int found = organization_for(rq, tx, account, &organization);

        if (found < 0)
            return bb_failed(rq);
        if (!found)
            return bb_fail(rq, 409, "An organization with this name already exists");
    }
    *rows = bb_tx_query(rq, tx, &insert,
                        BB_ARGS(bb_t(account->email), bb_t(account->first_name),
                                bb_t(account->last_name), bb_t(account->password),
                                bb_t(account->role), bb_t(account->status), bb_i(organization)));
    if (!*rows)
        return bb_failed(rq);
    if (bb_count(rq, *rows) == 0)
        return bb_fail(rq, 409, "An account with this e-mail already exists");
    return 0;
}

static int organization_of(void *state, struct bb_request *rq, const char *email,
                           int64_t *organization)
{
    static const struct bb_sql find = {
        "SELECT organisation FROM auth_account WHERE email = $1 AND status <> 'Deleted' "
        "AND approved IS NOT NULL",
        0};
    struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(bb_t(email)));

    (void)state;
    if (!rows)
        return -1;
    if (bb_count(rq, rows) == 0)
        return 0;
    *organization = bb_cell_int(rq, rows, 0, 0);
    return 1;
}

#define SCOPE(account)                                                                             \
    "SELECT a.email, a.role, a.status = 'Active' AS active, " ACCOUNT_ORGANIZATIONS                \
    " AS organisations, " ACCOUNT_APPROVED                                                         \
    " AS approved FROM auth_account a WHERE a.id = " account " AND a.status <> 'Deleted'"

#define ACCOUNTS BB_KEYS_1("bigint") " k(id, i)"
#define OF_ACCOUNT SCOPE("k.id")

static const struct bb_keyed scope_by_id = {
    {SCOPE("$1::bigint"), BB_SQL_KEYED},
    {"SELECT a.*, k.i FROM " ACCOUNTS " CROSS JOIN LATERAL (" OF_ACCOUNT " OFFSET 0) a", 0},
};

static int scope_of(void *state, struct bb_request *rq, int64_t account,
                    struct bb_account_scope *scope)
{
    struct bb_rows *rows = bb_query(rq, &scope_by_id.one, BB_ARGS(bb_i(account)));

    (void)state;
    if (!rows)
        return -1;
    if (bb_count(rq, rows) == 0)
        return 0;

    const char *list = bb_cell(rq, rows, 0, 3);
    size_t count = bb_cell_ints(list, NULL);
    int64_t *organizations = bb_alloc(rq, (count + 1) * sizeof(*organizations));

    bb_cell_ints(list, organizations);
    *scope = (struct bb_account_scope){
        .size = sizeof(*scope),
        .email = bb_cell(rq, rows, 0, 0),
        .role = auth_role_bit(bb_cell(rq, rows, 0, 1)),
        .active = bb_cell_int(rq, rows, 0, 2) != 0,
        .organizations = organizations,
        .organization_count = count,
        .approved_ms = bb_cell_int(rq, rows, 0, 4),
    };
    return 1;
}

static int organization_known(void *state, struct bb_request *rq, int64_t organization)
{
    static const struct bb_sql find = {"SELECT FROM auth_organisation WHERE id = $1::bigint", 0};
    const struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(bb_i(organization)));

    (void)state;
    return rows ? bb_count(rq, rows) > 0 : -1;
}

const struct bb_accounts auth_accounts = {
    .size = sizeof(auth_accounts),
    .organization_of = organization_of,
    .scope_of = scope_of,
    .organization_known = organization_known,
};
