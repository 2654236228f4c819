/* The Admin's operations on accounts: list, read, change. A change takes effect at once. */
#include "modules/auth/api/api.h"

#include <string.h>

int auth_user_list(struct bb_request *rq)
{
    static const struct bb_sql all = {"SELECT " ACCOUNT_COLUMNS
                                      " FROM auth_account a WHERE a.id > $1::bigint "
                                      "ORDER BY a.id LIMIT $2::bigint",
                                      BB_SQL_LONG};
    static const struct bb_sql of_status = {"SELECT " ACCOUNT_COLUMNS
                                            " FROM auth_account a WHERE a.id > $1::bigint "
                                            "AND a.status = $3 ORDER BY a.id LIMIT $2::bigint",
                                            BB_SQL_LONG};
    struct bb_value after = bb_i(bb_arg_int(rq, "after", 0));
    struct bb_value limit = bb_i(auth_page_limit(rq) + 1);
    const char *status = bb_arg(rq, "status");
    struct bb_rows *rows = status ? bb_query(rq, &of_status, BB_ARGS(after, limit, bb_t(status)))
                                  : bb_query(rq, &all, BB_ARGS(after, limit));

    return rows ? bb_reply_rows(rq, rows, (size_t)auth_page_limit(rq), 0, auth_account_json)
                : bb_failed(rq);
}

int auth_user_get(struct bb_request *rq)
{
    static const struct bb_sql find = {
        "SELECT " ACCOUNT_COLUMNS " FROM auth_account a WHERE a.id = $1::bigint", 0};
    struct bb_rows *rows = bb_query(rq, &find, BB_ARGS(bb_i(bb_segment_int(rq, "id"))));

    if (!rows)
        return bb_failed(rq);
    if (bb_count(rq, rows) == 0)
        return bb_fail(rq, 404, "No such user");
    return bb_reply(rq, 200, auth_account_json(rq, rows, 0));
}

/*
 * Refuses to remove the last active Admin. All changes of role and status are serialized here, so
 * that two Admins cannot remove each other at the same time.
 */
static int keep_an_admin(struct bb_request *rq, struct bb_tx *tx)
{
    static const struct bb_sql lock = {
        "SELECT pg_advisory_xact_lock(hashtextextended('busbar.auth.admin', 0))", 0};
    static const struct bb_sql last = {
        "SELECT EXISTS (SELECT FROM auth_account WHERE id = $1::bigint AND role = 'Admin' "
        "AND status = 'Active') AND NOT EXISTS (SELECT FROM auth_account WHERE role = 'Admin' "
        "AND status = 'Active' AND id <> $1::bigint)",
        0};
    const char *role = bb_text(rq, "role");
    const char *status = bb_text(rq, "status");

    if (!role && !status)
        return 0;
    if (!bb_tx_query(rq, tx, &lock, BB_NO_ARGS))
        return bb_failed(rq);
    if ((!role || strcmp(role, "Admin") == 0) && (!status || strcmp(status, "Active") == 0))
        return 0;

    struct bb_rows *rows = bb_tx_query(rq, tx, &last, BB_ARGS(bb_i(bb_segment_int(rq, "id"))));

    if (!rows)
        return bb_failed(rq);
    if (bb_cell_int(rq, rows, 0, 0))
        return bb_fail(rq, 409, "This is the last active Admin");
    return 0;
}

/*
 * If the module chat is loaded, adds the number of conversations with the account's e-mail, so that
 * the approving Admin sees that somebody else may have used this e-mail before.
 */
static int tell_conversations(struct bb_request *rq, const char *email, json_t *account)
{
    struct bb_service service = bb_service(rq->host, "conversations");
    const struct bb_conversations *conversations = service.interface;
    int64_t count = 0;

    if (!conversations)
        return 0;
    if (conversations->count_of(service.state, rq, email, &count) ||
        json_object_set_new(account, "conversations", json_integer(count)))
        return -1;
    if (count)
        bb_warn(rq, "email: takes part in %lld conversations already; is it this person's?",
                (long long)count);
    return 0;
}

enum script { OTHER, LATIN, ALIKE, GREEK, CYRILLIC, ARMENIAN, CHEROKEE };

static const char *const names[] = {
    [ALIKE] = "letters that look like Latin ones",
    [GREEK] = "Greek letters",
    [CYRILLIC] = "Cyrillic letters",
    [ARMENIAN] = "Armenian letters",
    [CHEROKEE] = "Cherokee letters",
};

/* Sorted by their first characters. Letters without a row do not look like Latin ones. */
static const struct {
    uint32_t first, last;
    enum script script;
} scripts[] = {
    {'A', 'Z', LATIN},          {'a', 'z', LATIN},          {0x00C0, 0x0130, LATIN},
    {0x0131, 0x0131, ALIKE},    {0x0132, 0x024F, LATIN},    {0x0250, 0x02AF, ALIKE},
    {0x0370, 0x03FF, GREEK},    {0x0400, 0x052F, CYRILLIC}, {0x0530, 0x058F, ARMENIAN},
    {0x13A0, 0x13FF, CHEROKEE}, {0x1C80, 0x1C8F, CYRILLIC}, {0x1D00, 0x1DBF, ALIKE},
    {0x1E00, 0x1EFF, LATIN},    {0x1F00, 0x1FFF, GREEK},    {0x2DE0, 0x2DFF, CYRILLIC},
    {0xA640, 0xA69F, CYRILLIC}, {0xA720, 0xA7FF, ALIKE},    {0xAB30, 0xAB6F, ALIKE},
    {0xAB70, 0xABBF, CHEROKEE},
};

/* Decodes the code point at the start of valid UTF-8; *size is its length in bytes. */
static uint32_t code_at(const char *text, size_t *size)
{
    const unsigned char *at = (const unsigned char *)text;
    uint32_t code = *at;

    *size = code < 0x80 ? 1 : code < 0xE0 ? 2 : code < 0xF0 ? 3 : 4;
    if (*size > 1)
        code &= 0x7Fu >> *size;
    for (size_t i = 1; i < *size; i++)
        code = code << 6 | (at[i] & 0x3Fu);
    return code;
}

static enum script script_of(uint32_t code)
{
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
        if (code >= scripts[i].first && code <= scripts[i].last)
            return scripts[i].script;
    return OTHER;
}

/*
 * Warns of an e-mail that may imitate another: letters that look like Latin ones among Latin
 * letters of its local part, such as a Cyrillic "а". They are allowed, because people have such
 * names.
 */
static void warn_lookalike(struct bb_request *rq, const char *email)
{
    bool latin = false;
    const char *alike = NULL;
    size_t size;

    for (const char *at = email; *at && *at != '@'; at += size) {
        enum script script = script_of(code_at(at, &size));

        latin = latin || script == LATIN;
        if (script > LATIN)
            alike = names[script];
    }
    if (alike && (latin || alike == names[ALIKE]))
        bb_warn(rq, "email: has %s; does it imitate another e-mail?", alike);
}

static int change(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    static const struct bb_sql update = {
        "UPDATE auth_account a SET first_name = coalesce($2, first_name), "
        "last_name = coalesce($3, last_name), email = coalesce($4, email), "
        "status = coalesce($5, status), role = coalesce($6, role), updated = now(), "
        "approved = CASE WHEN approved IS NULL AND $5 = 'Active' OR "
        "approved IS NOT NULL AND $4 <> email THEN now() ELSE approved END "
        "WHERE id = $1::bigint RETURNING " ACCOUNT_COLUMNS ", a.approved = now()",
        0};
    int status = keep_an_admin(rq, tx);

    if (status)
        return status;

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
        return bb_fail(rq, 404, "No such user");
    if (bb_notify(rq, tx, AUTH_CHANNEL, arg))
        return bb_failed(rq);

    json_t *account = auth_account_json(rq, rows, 0);

    if (bb_cell_int(rq, rows, 0, ACCOUNT_COLUMN_COUNT))
        warn_lookalike(rq, bb_cell(rq, rows, 0, 1));
    if (bb_cell_int(rq, rows, 0, ACCOUNT_COLUMN_COUNT) && account &&
        tell_conversations(rq, bb_cell(rq, rows, 0, 1), account)) {
        json_decref(account);
        return bb_failed(rq);
    }
    return bb_reply(rq, 200, account);
}

int auth_user_change(struct bb_request *rq)
{
    const char *payload = bb_format(rq, "account:%lld", (long long)bb_segment_int(rq, "id"));
    int status = bb_transaction(rq, change, (void *)(uintptr_t)payload);

    auth_changed(rq->state, payload);
    return status;
}
