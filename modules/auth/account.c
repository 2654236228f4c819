/* Rows of accounts (reading, writing, converting to JSON), and the service "accounts". */
#include <openssl/sha.h>
#include <string.h>

#include "modules/auth/auth.h"

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
    return BB_ROW_FIELDS(rq, rows, row, 0, auth_account_fields);
}

int64_t auth_page_limit(struct bb_request *rq)
{
    return bb_arg_int(rq, "limit", AUTH_PAGE_MAX);
}

int auth_reply_list(struct bb_request *rq, const struct bb_rows *rows,
                    const struct bb_field *fields, size_t count)
{
    return bb_reply_fields(rq, rows, (size_t)auth_page_limit(rq), 0, fields, count);
}

struct bb_value auth_sha256(struct bb_request *rq, const char *text)
{
    unsigned char *hash = bb_alloc(rq, SHA256_DIGEST_LENGTH);

    SHA256((const unsigned char *)text, strlen(text), hash);
    return bb_bytes(hash, SHA256_DIGEST_LENGTH);
}

const char *auth_random_hex(struct bb_request *rq, size_t bytes)
{
    const char *text = bb_random_hex(rq, bytes);

    if (!text)
        bb_end(rq, auth_no_random(rq));
    return text;
}

int auth_no_random(struct bb_request *rq)
{
    return bb_fail(rq, 503,
                   "The service cannot generate random numbers at the moment. Please try again.");
}

struct bb_rows *auth_account_insert(struct bb_request *rq, struct bb_tx *tx,
                                    const struct auth_new_account *account)
{
    static const struct bb_sql found = {
        "INSERT INTO auth_organisation AS o (name, type) VALUES (btrim($1), "
        "coalesce($2, 'Developer')) ON CONFLICT (busbar_fold(name)) DO UPDATE "
        "SET name = o.name WHERE $3::boolean RETURNING id",
        0};
    static const struct bb_sql insert = {
        "INSERT INTO auth_account AS a (email, first_name, last_name, password, role, status, "
        "organisation, approved, language) "
        "VALUES ($1, coalesce($2, ''), coalesce($3, ''), $4, $5, $6, "
        "nullif($7::bigint, 0), CASE WHEN $6 <> 'Pending' AND $8::bigint = 0 THEN now() END, $9) "
        "ON CONFLICT (email) DO NOTHING RETURNING " ACCOUNT_COLUMNS,
        0};
    struct bb_rows *rows;
    int64_t organization = account->home;

    if (account->organization) {
        rows = bb_tx_query_or_end(rq, tx, &found,
                                  BB_ARGS(bb_t(account->organization),
                                          bb_t(account->organization_type), bb_b(account->join)));
        if (bb_count(rq, rows) == 0)
            bb_end(rq, bb_fail(rq, 409, "An organization with this name already exists"));
        organization = bb_cell_int(rq, rows, 0, 0);
    }
    rows = bb_tx_query_or_end(
        rq, tx, &insert,
        BB_ARGS(bb_t(account->email), bb_t(account->first_name), bb_t(account->last_name),
                bb_t(account->password), bb_t(account->role), bb_t(account->status),
                bb_i(organization), bb_i(account->home), bb_t(account->language)));
    if (bb_count(rq, rows) == 0)
        bb_end(rq, bb_fail(rq, 409, "An account with this e-mail already exists"));
    return rows;
}

/* ---- the service "accounts": functions return 1 if found, 0 if not found, -1 on failure ---- */

static int account_organization_of(void *state, struct bb_request *rq, const char *email,
                                   int64_t *organization)
{
    static const struct bb_sql find = {
        "SELECT organisation FROM auth_account WHERE email = $1 AND status <> 'Deleted' "
        "AND approved IS NOT NULL",
        0};
    struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(bb_t(email)));

    (void)state;
    if (rows && bb_count(rq, rows))
        *organization = bb_cell_int(rq, rows, 0, 0);
    return rows ? bb_count(rq, rows) > 0 : -1;
}

#define SCOPE(account)                                                                             \
    "SELECT a.email, a.role, a.status = 'Active' AS active, " ACCOUNT_ORGANIZATIONS                \
    " AS organisations, " ACCOUNT_APPROVED                                                         \
    " AS approved FROM auth_account a WHERE a.id = " account " AND a.status <> 'Deleted'"

static const struct bb_keyed scope_by_id = {
    {SCOPE("$1::bigint"), BB_SQL_KEYED},
    {"SELECT a.*, k.i FROM " BB_KEYS_1("bigint") " k(id, i) CROSS JOIN LATERAL (" SCOPE(
         "k.id") " OFFSET 0) a",
     0},
};

static int account_scope_of(void *state, struct bb_request *rq, int64_t account,
                            struct bb_account_scope *scope)
{
    struct bb_rows *rows = bb_query(rq, &scope_by_id.one, BB_ARGS(bb_i(account)));

    (void)state;
    if (!rows || !bb_count(rq, rows))
        return rows ? 0 : -1;

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

static int account_organization_known(void *state, struct bb_request *rq, int64_t organization)
{
    static const struct bb_sql find = {"SELECT FROM auth_organisation WHERE id = $1::bigint", 0};
    const struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(bb_i(organization)));

    (void)state;
    return rows ? bb_count(rq, rows) > 0 : -1;
}

const struct bb_accounts auth_accounts = {
    .size = sizeof(auth_accounts),
    .organization_of = account_organization_of,
    .scope_of = account_scope_of,
    .organization_known = account_organization_known,
};
