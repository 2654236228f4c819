/* Where a request's time went, and the line in the log about one that took long. */
#include <stdio.h>

#include "core/base/log.h"
#include "core/http/http_txn.h"

enum { TEXT = 24 };

static const char *ms_text(char *text, int64_t us)
{
    snprintf(text, TEXT, "%lld.%03lld", (long long)(us / 1000), (long long)(us % 1000));
    return text;
}

/*
 * handler is what remains of the work: the module's own code, what it gave to a pool, Redis. What a
 * client takes to send and to read is no work.
 */
void slow_log(const struct http_txn *txn, int64_t whole_us)
{
    const struct core_request *rq = &txn->rq;
    const struct request_spent *spent = &rq->spent;
    int64_t limit_us = settings_int(rq->generation->settings, "http", "slow") * 1000;
    int64_t handler_us = spent->work_us - spent->queue_us - spent->database_us;
    char status[TEXT], ms[TEXT], work[TEXT], queue[TEXT], database[TEXT], handler[TEXT];

    if (!limit_us || spent->work_us < limit_us)
        return;
    snprintf(status, sizeof status, "%d", rq->response.status);
    log_line(BB_WARN, "slow request", "request", txn->id, "method", txn->method, "route",
             txn->match.route ? txn->match.route->path : "none", "status", status, "ms",
             ms_text(ms, whole_us), "work_ms", ms_text(work, spent->work_us), "queue_ms",
             ms_text(queue, spent->queue_us), "database_ms", ms_text(database, spent->database_us),
             "handler_ms", ms_text(handler, handler_us > 0 ? handler_us : 0), NULL);
}
