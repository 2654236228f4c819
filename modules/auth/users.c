/*
 * Accounts: operations of an account on itself, registration, operations of the Admin, and `busbar
 * user add`. A change takes effect at once.
 */
#include <string.h>

#include "modules/auth/auth.h"

/* ---- /api/auth/me and PUT /api/user/password ---- */

int auth_me(struct bb_request *rq)
{
    static const struct bb_sql find = {
        "SELECT " ACCOUNT_COLUMNS ", to_json($2::bigint[]), (SELECT coalesce(json_agg("
        "json_build_object('id', o.id, 'name', o.name) ORDER BY o.id), '[]') "
        "FROM auth_organisation o WHERE o.id = ANY($2::bigint[])) "
        "FROM auth_account a WHERE a.id = $1::bigint",
        0};
    const struct bb_principal *who = rq->principal;
    struct bb_rows *rows = bb_query_or_end(
        rq, &find,
        BB_ARGS(bb_i(who->account), bb_ints(who->organizations, who->organization_count)));

    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 401, "Unauthorized");
    return bb_reply(rq, 200, BB_ROW_FIELDS(rq, rows, 0, 0, auth_me_fields));
}

int auth_me_change(struct bb_request *rq)
{
    static const struct bb_sql change = {
        "UPDATE auth_account SET first_name = coalesce($2, first_name), "
        "last_name = coalesce($3, last_name), updated = now() WHERE id = $1::bigint",
        BB_SQL_WRITE};

    if (rq->principal->client)
        return bb_fail(rq, 403, "Forbidden");
    bb_query_or_end(rq, &change,
                    BB_ARGS(bb_i(rq->principal->account), bb_t(bb_text(rq, "firstName")),
                            bb_t(bb_text(rq, "lastName"))));
    return auth_me(rq);
}

struct change {
    const char *old, *encoded; /* hashes */
};

/*
 * The caller has changed the password, and may have waited for a login that had locked the account.
 * The statements here begin after this wait, so they see the session of that login.
 */
int auth_password_changed(struct bb_request *rq, struct bb_tx *tx, int64_t account,
                          const char *session)
{
    static const struct bb_sql refresh = {
        "DELETE FROM auth_refresh WHERE account = $1::bigint AND id IS DISTINCT FROM "
        "(SELECT login FROM auth_session WHERE jti = $2::uuid)",
        0};
    static const struct bb_sql end = {
        "UPDATE auth_session SET revoked = now() WHERE account = $1::bigint AND revoked IS NULL "
        "AND client IS NULL AND jti IS DISTINCT FROM $2::uuid",
        0};
    static const struct bb_sql forget = {
        "DELETE FROM auth_link WHERE account = $1::bigint AND purpose <> 'confirm'", 0};

    bb_tx_query_or_end(rq, tx, &refresh, BB_ARGS(bb_i(account), bb_t(session)));
    bb_tx_query_or_end(rq, tx, &end, BB_ARGS(bb_i(account), bb_t(session)));
    bb_tx_query_or_end(rq, tx, &forget, BB_ARGS(bb_i(account)));
    auth_notify(rq, tx, account);
    return bb_reply(rq, 200, json_pack("{ss}", "message", "Password changed"));
}

/* Stores the new hash if the old salt is still stored, and ends the account's other sessions. */
static int users_store_password(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql write = {
        "UPDATE auth_account SET password = $3, updated = now() WHERE id = $1::bigint "
        "AND split_part(password, '$', 5) = split_part($2, '$', 5) RETURNING id",
        0};
    const struct change *change = arg;
    int64_t account = rq->principal->account;
    struct bb_rows *rows = bb_tx_query_or_end(
        rq, tx, &write, BB_ARGS(bb_i(account), bb_t(change->old), bb_t(change->encoded)));

    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 409, "The password was changed by another request");
    return auth_password_changed(rq, tx, account, rq->principal->session);
}

int auth_change_password(struct bb_request *rq)
{
    struct auth *auth = rq->state;
    const struct bb_principal *who = rq->principal;
    struct auth_account account = {0};
    struct change change;
    bool good = false;

    if (who->client)
        return bb_fail(rq, 403, "Forbidden");

    int status = auth_credentials(rq, auth, who->email, bb_text(rq, "current"), &account, &good);

    if (status)
        return status;
    status = good && account.id == who->account ? 200 : bb_fail(rq, 401, "Unauthorized");
    auth_credentials_settle(rq, auth, who->email, &account, status);
    if (status != 200)
        return status;
    change.old = account.password;
    change.encoded = auth_password_hash(rq, "hash", bb_text(rq, "new"));
    return bb_transaction(rq, users_store_password, &change);
}

/* ---- POST /api/user/register: requests an account and an organization; an Admin approves ---- */

/* With register_silent every registration gets this response, even if the account exists. */
static int users_received(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    (void)tx, (void)arg;
    return bb_reply(rq, 202,
                    json_pack("{ss}", "message",
                              "The registration was received. An administrator has to approve "
                              "it."));
}

static int users_store(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct auth_new_account *account = arg;
    struct bb_rows *rows = auth_account_insert(rq, tx, account);

    if (account->link)
        auth_link_ask(rq, tx, account->link, account->email, account->language);
    return account->silent ? users_received(rq, tx, NULL)
                           : bb_reply(rq, 201, auth_account_json(rq, rows, 0));
}

int auth_register(struct bb_request *rq)
{
    /* Refuses duplicates before the password is hashed. Later, the unique indexes decide. */
    static const struct bb_sql look = {
        "SELECT EXISTS (SELECT FROM auth_account WHERE email = $1), EXISTS (SELECT FROM "
        "auth_organisation WHERE busbar_fold(name) = busbar_fold(btrim($2)))",
        0};
    const struct auth *auth = rq->state;
    const char *type = bb_text(rq, "organizationType");
    struct auth_new_account account = {
        .email = bb_text(rq, "email"),
        .first_name = bb_text(rq, "firstName"),
        .last_name = bb_text(rq, "lastName"),
        .organization = bb_text(rq, "orgName"),
        .organization_type = type,
        .role = type && strcmp(type, "Developer") ? type : "OrganizationAdmin",
        .status = "Pending",
        .silent = auth->settings->register_silent,
        .link = auth->settings->confirm_email && auth_sends_mail(rq->host) ? "confirm" : NULL,
        .language = auth_languages(rq),
    };

    int refused =
        auth_throttle_count(rq, 'r', auth->settings->registrations_per_address, "registrations");

    if (refused)
        return refused;
    bb_audit(rq, account.email);
    /* With `silent`, does the same work, including the hash, whether the account exists or not. */
    if (!account.silent) {
        struct bb_rows *rows =
            bb_query_or_end(rq, &look, BB_ARGS(bb_t(account.email), bb_t(account.organization)));

        if (bb_cell_int(rq, rows, 0, 0))
            return bb_fail(rq, 409, "An account with this e-mail already exists");
        if (bb_cell_int(rq, rows, 0, 1))
            return bb_fail(rq, 409, "An organization with this name already exists");
    }
    account.password = auth_password_hash(rq, "register", bb_text(rq, "password"));
    int status = bb_transaction(rq, users_store, &account);

    /* In a transaction, so that the response is stored for an Idempotency-Key in both cases. */
    return account.silent && status == 409 ? bb_transaction(rq, users_received, NULL) : status;
}

/* ---- `busbar user add`: adds the first Admin, and other accounts, from the machine itself ---- */

int auth_command_user_add(struct bb_request *rq)
{
    struct auth_new_account account = {
        .email = bb_text(rq, "email"),
        .first_name = bb_text(rq, "first-name"),
        .last_name = bb_text(rq, "last-name"),
        .role = bb_text(rq, "role"),
        .status = "Active",
        .organization = bb_text(rq, "organization"),
        .join = true,
    };
    struct auth_account found;
    int there = auth_account_find(rq, account.email, "", &found);

    if (there < 0)
        bb_end(rq, bb_failed(rq)); /* the host prints the error */
    if (there) {
        bb_print(rq, "%s already exists\n", account.email);
        return !json_is_true(json_object_get(bb_body(rq), "if-absent"));
    }
    account.password = auth_password_hash(rq, "hash", bb_text(rq, "password"));
    int status = bb_transaction(rq, users_store, &account);

    if (status >= 400) {
        bb_print(rq, "%s was not added (status %d)\n", account.email, status);
        return 1;
    }
    bb_print(rq, "%s added: %s, active\n", account.email, account.role);
    return 0;
}

/* ---- /api/admin/users: the Admin's operations ---- */

/*
 * Creates an account with the status Active. No password matches until the owner uses the link in
 * the mail. If an Admin invites, the account is approved at once; otherwise only by the link, so
 * that an OrganizationAdmin cannot claim the e-mail of another person for the organization.
 */
int auth_invite(struct bb_request *rq)
{
    const struct auth *auth = rq->state;
    bool by_admin = rq->principal->role == BB_ROLE_ADMIN;
    struct auth_new_account account = {
        .email = bb_text(rq, "email"),
        .first_name = bb_text(rq, "firstName"),
        .last_name = bb_text(rq, "lastName"),
        .role = bb_text(rq, "role"),
        .status = "Active",
        .password = auth->dummy,
        .organization = bb_text(rq, "orgName"),
        .join = true,
        .link = "invite",
        .language = bb_text(rq, "language"),
    };

    if (!auth->settings->invitations)
        return bb_fail(rq, 409,
                       "Invitations are disabled. The setting auth.invitations enables them.");
    if (!auth_sends_mail(rq->host))
        return bb_fail(rq, 409, "This service sends no mails. Please ask its operator.");
    int refused = by_admin ? 0 : bb_home(rq, 0, &account.home);

    if (!refused && !by_admin)
        refused = auth_throttle_count(rq, 'l', auth->settings->links_per_address, "invitations");
    return refused ? refused : bb_transaction(rq, users_store, &account);
}

int auth_members(struct bb_request *rq)
{
    static const struct bb_sql list = {
        "SELECT " ACCOUNT_COLUMNS " FROM auth_account a WHERE a.organisation = $1::bigint "
        "AND a.status <> 'Deleted' AND a.id > $2::bigint ORDER BY a.id LIMIT $3::bigint",
        0};
    int64_t home;
    int refused = bb_home(rq, 0, &home);

    if (refused)
        return refused;
    struct bb_rows *rows = bb_query_or_end(
        rq, &list,
        BB_ARGS(bb_i(home), bb_i(bb_arg_int(rq, "after", 0)), bb_i(auth_page_limit(rq) + 1)));

    return auth_reply_list(rq, rows, auth_account_fields, ACCOUNT_COLUMN_COUNT);
}

int auth_user_list(struct bb_request *rq)
{
    static const struct bb_sql of_status = {"SELECT " ACCOUNT_COLUMNS
                                            " FROM auth_account a WHERE a.id > $1::bigint "
                                            "AND a.status = $3 ORDER BY a.id LIMIT $2::bigint",
                                            BB_SQL_LONG};
    static const struct bb_sql found = {
        "SELECT " ACCOUNT_COLUMNS " FROM auth_account a "
        "LEFT JOIN auth_organisation o ON o.id = a.organisation WHERE a.id > $1::bigint "
        "AND ($3::text IS NULL OR a.status = $3) AND ($4::text IS NULL OR a.role = $4) "
        "AND ($6::bigint IS NULL OR a.organisation = $6) AND ($5::text IS NULL OR "
        "strpos(busbar_fold(concat_ws(' ', a.email, a.first_name, a.last_name, o.name)), "
        "busbar_fold($5)) > 0) ORDER BY a.id LIMIT $2::bigint",
        BB_SQL_LONG};
    const char *status = bb_arg(rq, "status"), *role = bb_arg(rq, "role");
    const char *search = bb_arg(rq, "search"), *organization = bb_arg(rq, "organizationId");
    struct bb_value after = bb_i(bb_arg_int(rq, "after", 0)), limit = bb_i(auth_page_limit(rq) + 1);
    const struct bb_rows *rows =
        status && !role && !search && !organization
            ? bb_query_or_end(rq, &of_status, BB_ARGS(after, limit, bb_t(status)))
            : bb_query_or_end(rq, &found,
                              BB_ARGS(after, limit, bb_t(status), bb_t(role), bb_t(search),
                                      bb_t(organization)));

    return auth_reply_list(rq, rows, auth_account_fields, ACCOUNT_COLUMN_COUNT);
}

int auth_user_get(struct bb_request *rq)
{
    static const struct bb_sql find = {
        "SELECT " ACCOUNT_COLUMNS " FROM auth_account a WHERE a.id = $1::bigint", 0};
    struct bb_rows *rows =
        bb_find_or_end(rq, &find, BB_ARGS(bb_i(bb_segment_int(rq, "id"))), "Account");

    return bb_reply(rq, 200, auth_account_json(rq, rows, 0));
}

/*
 * Ends the transaction if the role and status in the body are not allowed.
 *
 * The last active Admin is not removed. All changes of role and status are serialized, so that two
 * Admins cannot remove each other at the same time. With the setting confirm_email, an account
 * whose e-mail is not confirmed is approved only if the Admin sends the e-mail in the same request.
 */
static void users_check_change(struct bb_request *rq, struct bb_tx *tx)
{
    static const struct bb_sql lock = {
        "SELECT pg_advisory_xact_lock(hashtextextended('busbar.auth.admin', 0))", 0};
    static const struct bb_sql keep = {
        "SELECT busbar_require(NOT EXISTS (SELECT FROM auth_account WHERE id = $1::bigint AND "
        "role = 'Admin' AND status = 'Active') OR EXISTS (SELECT FROM auth_account WHERE role = "
        "'Admin' AND status = 'Active' AND id <> $1::bigint), 409, "
        "'This is the last active Admin')",
        0};
    static const struct bb_sql confirmed = {
        "SELECT busbar_require(approved IS NOT NULL OR confirmed IS NOT NULL, 409, 'The e-mail of "
        "this account is not confirmed yet. To approve the account anyway, send its `email`, "
        "too.') FROM auth_account WHERE id = $1::bigint",
        0};
    const struct auth *auth = rq->state;
    const char *role = bb_text(rq, "role"), *status = bb_text(rq, "status");
    bool active = status && strcmp(status, "Active") == 0;
    struct bb_value id = bb_i(bb_segment_int(rq, "id"));

    if (role || status)
        bb_tx_query_or_end(rq, tx, &lock, BB_NO_ARGS);
    if ((role && strcmp(role, "Admin") != 0) || (status && !active))
        bb_tx_query_or_end(rq, tx, &keep, &id, 1);
    if (active && auth->settings->confirm_email && !bb_text(rq, "email") &&
        auth_sends_mail(rq->host))
        bb_tx_query_or_end(rq, tx, &confirmed, &id, 1);
}

/*
 * Hides the conversations of `previous`, the e-mail of an account until this change, from its next
 * account, if the module chat is loaded. Returns 0, or -1 on failure.
 */
static int users_withhold(struct bb_request *rq, struct bb_tx *tx, const char *previous)
{
    struct bb_service service = bb_service(rq->host, "conversations");
    const struct bb_conversations *conversations = service.interface;

    return conversations && conversations->size >= sizeof(*conversations)
               ? conversations->withhold(service.state, rq, tx, previous)
               : 0;
}

/*
 * If the module chat is loaded, adds the number of conversations with the account's e-mail. The
 * number shows the approving Admin that another person may have used this e-mail before.
 */
static void users_add_conversations(struct bb_request *rq, const char *email, json_t *account)
{
    struct bb_service service = bb_service(rq->host, "conversations");
    const struct bb_conversations *conversations = service.interface;
    int64_t count = 0;

    if (!conversations)
        return;
    if (conversations->count_of(service.state, rq, email, &count))
        bb_end(rq, bb_failed(rq));
    bb_set(rq, account, "conversations", json_integer(count));
    if (count)
        bb_warn(rq,
                "email: already takes part in %lld conversation%s; check that the e-mail "
                "belongs to this person",
                (long long)count, count == 1 ? "" : "s");
}

/*
 * Names the letters with which an e-mail may imitate another e-mail. These are letters of another
 * script next to Latin letters in the local part, such as a Cyrillic "а", and rare Latin letters
 * that look like common ones. The result is null if there are none, or else the kind of the last
 * such letter. These e-mails are allowed, because some people have such names.
 */
#define LATIN "A-Za-z\\u00C0-\\u0130\\u0132-\\u024F\\u1E00-\\u1EFF"
#define ALIKE "\\u0131\\u0250-\\u02AF\\u1D00-\\u1DBF\\uA720-\\uA7FF\\uAB30-\\uAB6F"
#define GREEK "\\u0370-\\u03FF\\u1F00-\\u1FFF"
#define CYRILLIC "\\u0400-\\u052F\\u1C80-\\u1C8F\\u2DE0-\\u2DFF\\uA640-\\uA69F"
#define ARMENIAN "\\u0530-\\u058F"
#define CHEROKEE "\\u13A0-\\u13FF\\uAB70-\\uABBF"
#define IMITATION(email)                                                                           \
    "(SELECT CASE WHEN l.last ~ '[" ALIKE "]' THEN 'letters that look like Latin ones'"            \
    " WHEN l.last ~ '[" GREEK "]' THEN 'Greek letters'"                                            \
    " WHEN l.last ~ '[" CYRILLIC "]' THEN 'Cyrillic letters'"                                      \
    " WHEN l.last ~ '[" ARMENIAN "]' THEN 'Armenian letters' ELSE 'Cherokee letters' END"          \
    " FROM substring(split_part(" email                                                            \
    ", '@', 1) FROM '.*([" ALIKE GREEK CYRILLIC ARMENIAN CHEROKEE                                  \
    "])') l (last) WHERE l.last ~ '[" ALIKE "]'"                                                   \
    " OR l.last <> '' AND split_part(" email ", '@', 1) ~ '[" LATIN "]')"

/*
 * If `arg` is not NULL and the change replaces an e-mail whose conversations are hidden, checks the
 * whole change, sets *arg to this e-mail, and has the transaction rolled back without a response.
 */
static int users_change(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql update = {
        "UPDATE auth_account a SET first_name = coalesce($2, first_name), "
        "last_name = coalesce($3, last_name), email = coalesce($4, email), "
        "status = coalesce($5, status), role = coalesce($6, role), updated = now(), "
        "confirmed = CASE WHEN $4 <> email THEN NULL ELSE confirmed END, "
        "approved = CASE WHEN approved IS NULL AND $5 = 'Active' OR "
        "approved IS NOT NULL AND $4 <> email THEN now() ELSE approved END "
        "FROM (SELECT id AS which, email AS previous, approved AS protected FROM auth_account "
        "WHERE id = $1::bigint FOR UPDATE) o WHERE id = which "
        "RETURNING " ACCOUNT_COLUMNS ", a.approved = now(), "
        "a.status = 'Active' AND (SELECT o.approved IS NULL AND o.status <> 'Active' "
        "FROM auth_account o WHERE o.id = a.id), "
        "concat_ws(' ', nullif(a.first_name, ''), nullif(a.last_name, '')), "
        "a.language, CASE WHEN protected IS NOT NULL AND previous <> a.email THEN previous "
        "END, " IMITATION("a.email"),
        0};

    static const struct bb_sql current = {
        "SELECT " ACCOUNT_COLUMNS " FROM auth_account a WHERE a.id = $1::bigint FOR UPDATE", 0};
    /* Links must not work again if the change is undone. */
    static const struct bb_sql forget = {
        "DELETE FROM auth_link l WHERE l.account = $1::bigint AND NOT EXISTS "
        "(SELECT FROM auth_account a WHERE " LINK_VALID ")",
        0};

    const char **replaced = arg;

    users_check_change(rq, tx);
    bb_if_match_or_end(rq, tx, &current, BB_ARGS(bb_i(bb_segment_int(rq, "id"))),
                       auth_account_json);
    struct bb_rows *rows =
        bb_tx_query(rq, tx, &update,
                    BB_ARGS(bb_i(bb_segment_int(rq, "id")), bb_t(bb_text(rq, "firstName")),
                            bb_t(bb_text(rq, "lastName")), bb_t(bb_text(rq, "email")),
                            bb_t(bb_text(rq, "status")), bb_t(bb_text(rq, "role"))));

    if (!rows && strcmp(bb_sqlstate(rq), "23505") == 0)
        return bb_fail(rq, 409, "An account with this e-mail already exists");
    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "Account not found");
    const char *previous = bb_cell(rq, rows, 0, ACCOUNT_COLUMN_COUNT + 4);

    if (replaced && previous) {
        *replaced = previous;
        return 409;
    }
    bb_tx_query_or_end(rq, tx, &forget, BB_ARGS(bb_i(bb_segment_int(rq, "id"))));
    auth_notify(rq, tx, bb_segment_int(rq, "id"));
    json_t *account = bb_hold(rq, auth_account_json(rq, rows, 0));
    const char *alike = bb_cell(rq, rows, 0, ACCOUNT_COLUMN_COUNT + 5);
    bool approved = bb_cell_int(rq, rows, 0, ACCOUNT_COLUMN_COUNT) != 0;

    if (bb_cell_int(rq, rows, 0, ACCOUNT_COLUMN_COUNT + 1)) /* approved, not only a new e-mail */
        auth_mail_approved(rq, tx, bb_cell(rq, rows, 0, 1),
                           bb_cell(rq, rows, 0, ACCOUNT_COLUMN_COUNT + 2),
                           bb_cell(rq, rows, 0, ACCOUNT_COLUMN_COUNT + 3));
    if (approved && alike)
        bb_warn(rq, "email: has %s; check that it does not imitate another e-mail", alike);
    if (previous && users_withhold(rq, tx, previous))
        return bb_failed(rq);
    if (approved)
        users_add_conversations(rq, bb_cell(rq, rows, 0, 1), account);
    return bb_reply(rq, 200, json_incref(account));
}

int auth_user_change(struct bb_request *rq)
{
    const char *previous = NULL;
    int status = bb_transaction(rq, users_change, &previous);

    if (!previous)
        return status;
    /* Hides conversations before the change, which locks those that it hides until its end. The
     * function above has checked the change, so that a refused change hides nothing. */
    if (users_withhold(rq, NULL, previous))
        return bb_failed(rq);
    return bb_transaction(rq, users_change, NULL);
}
