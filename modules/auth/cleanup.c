/* The job auth.cleanup: takes away sessions that ran out, and keys that no token can name. */
#include "auth.h"

#define BATCH 1000
#define BATCH_TEXT "1000"

static bool expired_sessions(struct bb_request *rq)
{
    static const struct bb_sql delete = {
        "DELETE FROM auth_session WHERE jti IN (SELECT jti FROM auth_session "
        "WHERE expires < now() - interval '1 day' ORDER BY expires LIMIT " BATCH_TEXT ")",
        BB_SQL_WRITE | BB_SQL_LONG};
    struct bb_rows *rows = bb_query(rq, &delete, BB_NO_ARGS);

    return rows && bb_affected(rq, rows) == BATCH;
}

void auth_cleanup(struct bb_request *rq)
{
    static const struct bb_sql keys = {
        "DELETE FROM auth_key WHERE retired < now() - make_interval(secs => $1::bigint)",
        BB_SQL_WRITE | BB_SQL_LONG};
    const struct auth *auth = rq->state;

    while (expired_sessions(rq))
        ;
    if (!bb_query(rq, &keys, BB_ARGS(bb_i(auth->session_s + auth->client_s))))
        bb_log(rq, BB_WARN, "retired signing keys were not cleaned away: %s", bb_sqlstate(rq));
}
