/*
 * The events that webhook owners may see. The scope of an owner is stored in the rows of its
 * webhooks, so that the enqueueing statement can decide in the publisher's transaction. This file
 * updates these rows when accounts change.
 *
 * A new webhook gets the scope of its creator. Every change of an account is published on the
 * channel of the module auth. Each host that is notified queries the service "accounts" and updates
 * rows that differ, within a second. A job does the same for all owners each minute, in case a
 * notification was missed. Webhooks of inactive owners get no events, and their waiting deliveries
 * are not sent.
 */
#include "modules/webhook/publish/publish.h"

#include <string.h>

#define OWNERS_PAGE 500

/* Only these roles act for their organizations; other roles see events by their e-mail only. */
size_t webhook_scope_count(unsigned role, size_t organizations)
{
    return role & (BB_ROLE_ORGANIZATION_ADMIN | BB_ROLE_API_USER) ? organizations : 0;
}

/* Writes a changed scope, and notifies the senders of all hosts. */
static const struct bb_sql write_scope = {
    "WITH changed AS (UPDATE webhook_hook SET admitted = $2::boolean, sees_all = $3::boolean,"
    " organisations = $4::bigint[], email = $5 WHERE account = $1::bigint"
    " AND (admitted, sees_all, organisations, email)"
    " IS DISTINCT FROM ($2::boolean, $3::boolean, $4::bigint[], $5::text) RETURNING id)"
    " SELECT pg_notify('" WEBHOOK_CHANNEL "', 'hook:' || id) FROM changed",
    BB_SQL_WRITE,
};

/* Refreshes the scope of an account. `arg` is its id, not a pointer; 0: all owners of webhooks. */
static void scope_refresh(struct bb_request *rq, void *arg)
{
    static const struct bb_sql owners = {
        "SELECT DISTINCT account FROM webhook_hook WHERE account > $1::bigint"
        " AND account <= $2::bigint ORDER BY account LIMIT 500",
        0};
    const struct bb_service found = bb_service(rq->host, "accounts");
    const struct bb_accounts *accounts = found.interface;
    int64_t only = (intptr_t)arg, account = only ? only - 1 : 0;
    int64_t last = only ? only : INT64_MAX;
    size_t count = OWNERS_PAGE;

    while (count == OWNERS_PAGE) {
        const struct bb_rows *rows = bb_query(rq, &owners, BB_ARGS(bb_i(account), bb_i(last)));

        count = rows ? bb_count(rq, rows) : 0;
        for (size_t i = 0; i < count; i++) {
            struct bb_account_scope scope = {.size = sizeof(scope)};

            account = bb_cell_int(rq, rows, i, 0);
            int known = accounts->scope_of(found.state, rq, account, &scope);

            if (!known) /* the account was deleted, but not its webhooks */
                scope = (struct bb_account_scope){.email = ""};
            if (known < 0 ||
                !bb_query(rq, &write_scope,
                          BB_ARGS(bb_i(account), WEBHOOK_SCOPE_ARGS(scope.active, &scope))))
                bb_log(rq, BB_WARN,
                       "the scope of account %lld's webhooks could not be refreshed: %s",
                       (long long)account, bb_sqlstate(rq));
        }
    }
}

void webhook_refresh_owners(struct bb_request *rq)
{
    scope_refresh(rq, NULL);
}

/*
 * Handles a change of an account, or of the signing keys. New keys revoke all tokens, but change no
 * scope.
 */
void webhook_auth_heard(void *state, const char *payload)
{
    const struct webhook *webhook = state;
    bool one = payload && strncmp(payload, "account:", 8) == 0;
    intptr_t account = one ? strtol(payload + 8, NULL, 10) : 0;

    waiters_access_changed(webhook->waiters, account);
    if (payload && !one)
        return;
    /* if this fails (out of memory), a job calls webhook_refresh_owners() within a minute */
    bb_run(webhook->host, scope_refresh, (void *)account); // NOLINT
}
