/* Statements that are never sent. */
#include <string.h>

#include "core/base/log.h"
#include "core/module/sql_check.h"
#include "core/module/sql_token.h"
#include "core/postgres/pg_pool.h"
#include "core/postgres/sql.h"
#include "core/request/module_error.h"

enum { WORDS = 80 /* of a statement, in the log */ };

static int refuse(struct core_request *rq, const struct bb_sql *sql, const char *why)
{
    char words[WORDS], route[MODULE_ERROR_PLACE];
    const struct log_pair pairs[] = {
        {"module", module_error_module(rq->pub.host)},
        module_error_place(rq, route),
        {"statement", sql_words(sql->text, words, sizeof words)},
        {"reason", why},
        {"request", rq->id},
    };

    log_pairs(BB_ERROR, "a module's statement is refused", pairs, sizeof pairs / sizeof *pairs);
    return request_fail(rq, FAILED_REFUSED);
}

int sql_admit(struct core_request *rq, const struct bb_sql *sql, bool interactive)
{
    uintptr_t key = (uintptr_t)sql | interactive;
    uintptr_t *seen = &rq->loop->admitted[(key >> 4 ^ key >> 13) % LOOP_ADMITTED];
    const char *why = *seen == key ? NULL : sql_check(sql->text, interactive);

    if (*seen != key && !why && sql->flags & BB_SQL_KEYED)
        why = sql_check(pg_many(sql)->text, interactive);
    if (why)
        return refuse(rq, sql, why);
    *seen = key;
    return 0;
}
