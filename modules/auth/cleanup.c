/*
 * The job auth.cleanup: deletes expired rows (sessions, keys that no token can name, networks
 * without a recent login) and accounts that were never approved.
 */
#include "modules/auth/module.h"

#include "modules/auth/account/auth.h"

#define BATCH 1000
#define BATCH_TEXT "1000"

static const struct bb_sql expired_sessions = {
    "DELETE FROM auth_session WHERE jti IN (SELECT jti FROM auth_session "
    "WHERE expires < now() - make_interval(days => $1::int) ORDER BY expires LIMIT " BATCH_TEXT ")",
    BB_SQL_WRITE | BB_SQL_LONG};

static const struct bb_sql retired_keys = {
    "DELETE FROM auth_key WHERE retired < now() - make_interval(secs => $1::bigint)",
    BB_SQL_WRITE | BB_SQL_LONG};

static const struct bb_sql old_origins = {
    "DELETE FROM auth_origin WHERE (account, network) IN (SELECT account, network FROM auth_origin "
    "WHERE seen < now() - make_interval(days => $1::int) ORDER BY seen LIMIT " BATCH_TEXT
    " FOR UPDATE SKIP LOCKED)",
    BB_SQL_WRITE | BB_SQL_LONG};

/*
 * Also deletes the account's organization, unless somebody else is in it or acts for it. The rows
 * are locked in the subquery: a DELETE that first waited for an approval would decide by its old
 * snapshot, and delete the approved account.
 */
static const struct bb_sql never_approved = {
    "WITH gone AS (DELETE FROM auth_account WHERE id IN (SELECT a.id FROM auth_account a "
    "WHERE a.status = 'Pending' AND a.approved IS NULL "
    "AND a.created < now() - make_interval(days => $1::int) "
    "AND NOT EXISTS (SELECT FROM auth_organisation o WHERE o.api_user = a.id) "
    "ORDER BY a.created LIMIT " BATCH_TEXT " FOR UPDATE SKIP LOCKED) RETURNING id, organisation), "
    "organisations AS (DELETE FROM auth_organisation o USING gone g WHERE o.id = g.organisation "
    "AND o.api_user IS NULL AND NOT EXISTS (SELECT FROM auth_account b WHERE b.organisation = o.id "
    "AND b.id NOT IN (SELECT id FROM gone))) SELECT id FROM gone",
    BB_SQL_WRITE | BB_SQL_LONG};

static void sweep(struct bb_request *rq, const struct bb_sql *sql, int64_t age, const char *what)
{
    const struct bb_rows *rows;

    do
        rows = bb_query(rq, sql, BB_ARGS(bb_i(age)));
    while (rows && bb_affected(rq, rows) == BATCH);
    if (!rows)
        bb_log(rq, BB_WARN, "cannot delete %s: %s", what, bb_sqlstate(rq));
}

void auth_cleanup(struct bb_request *rq)
{
    const struct auth *auth = rq->state;

    sweep(rq, &expired_sessions, 1, "expired sessions");
    sweep(rq, &retired_keys, auth->session_s + auth->client_s, "retired signing keys");
    sweep(rq, &old_origins, 90, "networks of logins");
    sweep(rq, &never_approved, auth->settings->pending_days, "accounts that were never approved");
}
