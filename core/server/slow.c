/* Measures where the time of a request was spent, and logs slow requests. */
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/server/http_txn.h"

static const char *ms_text(char *text, int64_t us)
{
    text_ms(us, text);
    return text;
}

/*
 * `handler` is the rest of the working time: the module's code, its pool calls, and Redis. Time
 * that the client needs to send and to read does not count.
 */
void slow_log(const struct http_txn *txn, int64_t whole_us)
{
    const struct core_request *rq = &txn->rq;
    const struct request_spent *spent = &rq->spent;
    int64_t limit_us = rq->generation->request.slow_us;
    int64_t handler_us = spent->work_us - spent->queue_us - spent->database_us;
    char trace[TRACE_ID_SIZE], status[TEXT_INTEGER_SIZE], ms[TEXT_MS_SIZE], work[TEXT_MS_SIZE],
        queue[TEXT_MS_SIZE], database[TEXT_MS_SIZE], handler[TEXT_MS_SIZE];

    if (!limit_us || spent->work_us < limit_us)
        return;
    text_integer(rq->response.status, status);
    trace_id(rq->trace, trace);
    log_line(BB_WARN, "slow request", "request", txn->id, "trace", trace, "method", txn->method,
             "route", txn->match.route ? txn->match.route->path : "none", "status", status, "ms",
             ms_text(ms, whole_us), "work_ms", ms_text(work, spent->work_us), "queue_ms",
             ms_text(queue, spent->queue_us), "database_ms", ms_text(database, spent->database_us),
             "handler_ms", ms_text(handler, handler_us > 0 ? handler_us : 0), NULL);
}
