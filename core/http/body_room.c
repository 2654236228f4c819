/*
 * Room in memory for large bodies, and for large answers: what there is for all of them, and for
 * those of one account.
 */
#include <string.h>
#include <strings.h>

#include "core/base/share.h"
#include "core/engine/engine.h"
#include "core/http/exchange.h"
#include "core/request/quota.h"
#include "core/request/reply.h"

#define RETRY_SECONDS "5"

/* The same for as long as the exchange holds anything: it is known before the body comes. */
static struct share_owner owner_of(const struct exchange *exchange)
{
    return exchange->rq.owner;
}

static struct share_bounds bounds_of(const struct exchange *exchange, enum quota quota)
{
    return quota_bounds(exchange->rq.generation->settings, quota);
}

static enum share_answer take(struct exchange *exchange, size_t bytes)
{
    struct share_owner owner = owner_of(exchange);
    struct share_bounds bounds = bounds_of(exchange, QUOTA_BODIES);
    enum share_answer answer = share_take(exchange->rq.loop->engine->shares[QUOTA_BODIES], &owner,
                                          exchange->counted, bytes, &bounds);

    if (answer == SHARE_TAKEN)
        exchange->counted += bytes;
    return answer;
}

static int refuse(struct core_request *rq, enum share_answer answer, enum quota quota)
{
    quota_fail(rq, quota, answer);
    if (answer == SHARE_OWN_FULL) {
        reply_header(rq, "Retry-After", RETRY_SECONDS);
        return reply_error(rq, 429, "This %s has too many large %s under way",
                           rq->owner.account ? "account" : "address", quota_names[quota]);
    }
    return reply_failed(rq);
}

bool body_try_room(struct exchange *exchange, size_t bytes)
{
    return take(exchange, bytes) == SHARE_TAKEN;
}

/* Most bodies take none: nothing that all loops share is touched for them. */
int body_take_room(struct exchange *exchange, size_t bytes)
{
    enum share_answer answer = bytes ? take(exchange, bytes) : SHARE_TAKEN;

    return answer == SHARE_TAKEN ? 0 : refuse(&exchange->rq, answer, QUOTA_BODIES);
}

void body_give_room(struct exchange *exchange, size_t bytes)
{
    if (!bytes)
        return;
    struct share_owner owner = owner_of(exchange);

    share_give(exchange->rq.loop->engine->shares[QUOTA_BODIES], &owner, bytes);
    exchange->counted -= bytes;
}

static bool reads_only(const struct exchange *exchange)
{
    return !strcmp(exchange->method, "GET") || !strcmp(exchange->method, "HEAD");
}

/*
 * What was done cannot be refused any more: only who just wanted to read is told to come again. But
 * who watches the host (GET /metrics) is to see that there is no room.
 */
static bool may_refuse(const struct exchange *exchange)
{
    const struct bb_route *route = exchange->match.route;

    return reads_only(exchange) && !(route && route->flags & BB_INSIDE);
}

int answer_check_room(struct exchange *exchange)
{
    if (reads_only(exchange) || !shares_taken(exchange->rq.loop->engine->shares[QUOTA_ANSWERS]))
        return 0;
    struct share_owner owner = owner_of(exchange);
    size_t each = bounds_of(exchange, QUOTA_ANSWERS).each;

    if (!share_is_full(exchange->rq.loop->engine->shares[QUOTA_ANSWERS], &owner, each))
        return 0;
    return refuse(&exchange->rq, SHARE_OWN_FULL, QUOTA_ANSWERS);
}

/* The type of the answer that an error takes the place of. */
static void drop_type(struct answer *answer)
{
    struct answer_header **at = &answer->headers;

    while (*at) {
        if (!strcasecmp((*at)->name, "Content-Type"))
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
}

void answer_take_room(struct exchange *exchange)
{
    struct answer *answer = &exchange->rq.answer;
    struct share_bounds bounds = {SIZE_MAX, SIZE_MAX};

    if (!answer->body || answer->length < BODY_LARGE)
        return;
    struct share_owner owner = owner_of(exchange);

    if (may_refuse(exchange))
        bounds = bounds_of(exchange, QUOTA_ANSWERS);
    enum share_answer taken = share_take(exchange->rq.loop->engine->shares[QUOTA_ANSWERS], &owner,
                                         0, answer->length, &bounds);

    if (taken == SHARE_TAKEN) {
        exchange->answer_counted = answer->length;
    } else if (taken != SHARE_NO_MEMORY) {
        drop_type(answer);
        refuse(&exchange->rq, taken, QUOTA_ANSWERS);
    }
}

void answer_give_room(struct exchange *exchange)
{
    if (!exchange->answer_counted)
        return;
    struct share_owner owner = owner_of(exchange);

    share_give(exchange->rq.loop->engine->shares[QUOTA_ANSWERS], &owner, exchange->answer_counted);
    exchange->answer_counted = 0;
}
