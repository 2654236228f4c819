/*
 * The budget of memory for large bodies and large answers: what there is for all of them, and for
 * those of one account.
 */
#include <string.h>
#include <strings.h>

#include "core/base/share.h"
#include "core/engine/engine.h"
#include "core/http/http_txn.h"
#include "core/request/quota.h"
#include "core/request/reply.h"

#define RETRY_SECONDS "5"

/* The same for as long as the HTTP transaction holds anything: it is known before the body comes.
 */
static struct share_owner owner_of(const struct http_txn *txn)
{
    return txn->rq.owner;
}

static struct share_bounds bounds_of(const struct http_txn *txn, enum quota quota)
{
    return quota_bounds(txn->rq.generation->settings, quota);
}

static enum share_answer take(struct http_txn *txn, size_t bytes)
{
    struct share_owner owner = owner_of(txn);
    struct share_bounds bounds = bounds_of(txn, QUOTA_BODIES);
    enum share_answer answer = share_take(txn->rq.loop->engine->shares[QUOTA_BODIES], &owner,
                                          txn->counted, bytes, &bounds);

    if (answer == SHARE_TAKEN)
        txn->counted += bytes;
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

bool body_try_room(struct http_txn *txn, size_t bytes)
{
    return take(txn, bytes) == SHARE_TAKEN;
}

/* Most bodies take none: nothing that all loops share is touched for them. */
int body_take_room(struct http_txn *txn, size_t bytes)
{
    enum share_answer answer = bytes ? take(txn, bytes) : SHARE_TAKEN;

    return answer == SHARE_TAKEN ? 0 : refuse(&txn->rq, answer, QUOTA_BODIES);
}

void body_give_room(struct http_txn *txn, size_t bytes)
{
    if (!bytes)
        return;
    struct share_owner owner = owner_of(txn);

    share_give(txn->rq.loop->engine->shares[QUOTA_BODIES], &owner, bytes);
    txn->counted -= bytes;
}

static bool reads_only(const struct http_txn *txn)
{
    return !strcmp(txn->method, "GET") || !strcmp(txn->method, "HEAD");
}

/*
 * What was done cannot be refused any more: only who just wanted to read is told to come again. But
 * who watches the host (GET /metrics) is to see that there is no room.
 */
static bool may_refuse(const struct http_txn *txn)
{
    const struct bb_route *route = txn->match.route;

    return reads_only(txn) && !(route && route->flags & BB_INSIDE);
}

int answer_check_room(struct http_txn *txn)
{
    if (reads_only(txn) || !shares_taken(txn->rq.loop->engine->shares[QUOTA_ANSWERS]))
        return 0;
    struct share_owner owner = owner_of(txn);
    size_t each = bounds_of(txn, QUOTA_ANSWERS).each;

    if (!share_is_full(txn->rq.loop->engine->shares[QUOTA_ANSWERS], &owner, each))
        return 0;
    return refuse(&txn->rq, SHARE_OWN_FULL, QUOTA_ANSWERS);
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

void answer_take_room(struct http_txn *txn)
{
    struct answer *answer = &txn->rq.answer;
    struct share_bounds bounds = {SIZE_MAX, SIZE_MAX};

    if (!answer->body || answer->length < BODY_LARGE)
        return;
    struct share_owner owner = owner_of(txn);

    if (may_refuse(txn))
        bounds = bounds_of(txn, QUOTA_ANSWERS);
    enum share_answer taken =
        share_take(txn->rq.loop->engine->shares[QUOTA_ANSWERS], &owner, 0, answer->length, &bounds);

    if (taken == SHARE_TAKEN) {
        txn->answer_counted = answer->length;
    } else if (taken != SHARE_NO_MEMORY) {
        drop_type(answer);
        refuse(&txn->rq, taken, QUOTA_ANSWERS);
    }
}

void answer_give_room(struct http_txn *txn)
{
    if (!txn->answer_counted)
        return;
    struct share_owner owner = owner_of(txn);

    share_give(txn->rq.loop->engine->shares[QUOTA_ANSWERS], &owner, txn->answer_counted);
    txn->answer_counted = 0;
}
