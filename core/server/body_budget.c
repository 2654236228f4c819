/* Memory limits for large bodies and large answers: in total, and for each account. */
#include <string.h>
#include <strings.h>

#include "core/module/engine.h"
#include "core/module/quota.h"
#include "core/module/reply.h"
#include "core/server/http_txn.h"

#define RETRY_SECONDS "5"

static struct quota_limits bounds_of(const struct http_txn *txn, enum quota quota)
{
    return quota_bounds(txn->rq.generation, quota);
}

static enum quota_result take(struct http_txn *txn, size_t bytes)
{
    struct quota_limits bounds = bounds_of(txn, QUOTA_BODIES);

    return quota_take(&quota_tables[QUOTA_BODIES], &txn->counted, &txn->rq.owner, bytes, &bounds);
}

static int refuse(struct core_request *rq, enum quota_result answer, enum quota quota)
{
    quota_fail(rq, quota, answer);
    if (answer == QUOTA_OWN_FULL) {
        reply_header(rq, "Retry-After", RETRY_SECONDS);
        return reply_error(rq, 429, "Too many large %s in progress for this %s", quota_names[quota],
                           rq->owner.account ? "account" : "address");
    }
    return reply_failed(rq);
}

bool body_try_room(struct http_txn *txn, size_t bytes)
{
    return take(txn, bytes) == QUOTA_TAKEN;
}

/* Small bodies count as 0 bytes, and do not touch data shared by the loops. */
int body_take_room(struct http_txn *txn, size_t bytes)
{
    enum quota_result answer = bytes ? take(txn, bytes) : QUOTA_TAKEN;

    return answer == QUOTA_TAKEN ? 0 : refuse(&txn->rq, answer, QUOTA_BODIES);
}

void body_give_room(struct http_txn *txn, size_t bytes)
{
    if (bytes)
        quota_release(&quota_tables[QUOTA_BODIES], &txn->counted, bytes);
}

static bool reads_only(const struct http_txn *txn)
{
    return !strcmp(txn->method, "GET") || !strcmp(txn->method, "HEAD");
}

/*
 * A request that had effects must not be refused any more, so only read-only requests are.
 * Monitoring (GET /metrics) is never refused, so that it can report the lack of memory.
 */
static bool may_refuse(const struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;

    return reads_only(txn) && !(route && route->flags & BB_INSIDE);
}

int response_check_budget(struct http_txn *txn)
{
    if (reads_only(txn) || !quota_taken(&quota_tables[QUOTA_ANSWERS]))
        return 0;
    if (quota_entry_of(&quota_tables[QUOTA_ANSWERS], &txn->rq.owner) <
        bounds_of(txn, QUOTA_ANSWERS).each)
        return 0;
    return refuse(&txn->rq, QUOTA_OWN_FULL, QUOTA_ANSWERS);
}

/* Removes the Content-Type of the answer that an error replaces. */
static void drop_type(struct response *response)
{
    struct response_header **at = &response->headers;

    while (*at) {
        if (!strcasecmp((*at)->name, "Content-Type"))
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
}

static enum quota_result take_answer(struct http_txn *txn, struct quota_table *table, size_t bytes,
                                     struct quota_charge *charge)
{
    struct quota_limits bounds = {SIZE_MAX, SIZE_MAX};

    if (may_refuse(txn))
        bounds = bounds_of(txn, QUOTA_ANSWERS);
    return quota_take(table, charge, &txn->rq.owner, bytes, &bounds);
}

int response_take_json(struct http_txn *txn, size_t bytes, struct quota_charge *charge)
{
    enum quota_result taken = take_answer(txn, &quota_tables[QUOTA_UNWRITTEN], bytes, charge);

    if (taken != QUOTA_OWN_FULL && taken != QUOTA_ALL_FULL)
        return 0;
    return refuse(&txn->rq, taken, QUOTA_ANSWERS);
}

void response_take_budget(struct http_txn *txn)
{
    struct response *response = &txn->rq.response;

    if (!response->body || response->length < BODY_LARGE || txn->response_counted.bytes)
        return;
    enum quota_result taken =
        take_answer(txn, &quota_tables[QUOTA_ANSWERS], response->length, &txn->response_counted);

    if (taken == QUOTA_OWN_FULL || taken == QUOTA_ALL_FULL) {
        drop_type(response);
        refuse(&txn->rq, taken, QUOTA_ANSWERS);
    }
}

void response_release_budget(struct http_txn *txn)
{
    quota_release_all(&quota_tables[QUOTA_ANSWERS], &txn->response_counted);
}
