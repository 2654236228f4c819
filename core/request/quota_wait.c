#include <stdio.h>

#include "core/loop/loop.h"
#include "core/request/quota.h"
#include "core/request/reply.h"

/* Of a request that waits; on its fiber's stack. */
struct quota_turn {
    struct core_request *rq;
    struct quota_turn *next; /* of the loop, whoever's it is */
    int64_t until_ms;
    bool first; /* of its owner's */
    bool woken;
};

static bool has_turn(const struct loop *loop, const struct quota_owner *owner)
{
    const struct quota_turn *turn = loop->turns;

    while (turn && !quota_owner_same(&turn->rq->owner, owner))
        turn = turn->next;
    return turn != NULL;
}

static void join(struct loop *loop, struct quota_turn *turn)
{
    struct quota_turn **last = &loop->turns;

    turn->first = !has_turn(loop, &turn->rq->owner);
    while (*last)
        last = &(*last)->next;
    *last = turn;
}

/* Behind the first one the next of the same owner is the first. */
static void leave(struct loop *loop, struct quota_turn *turn)
{
    struct quota_turn **at = &loop->turns, *next = turn->next;

    while (*at != turn)
        at = &(*at)->next;
    *at = next;
    if (!turn->first)
        return;
    while (next && !quota_owner_same(&next->rq->owner, &turn->rq->owner))
        next = next->next;
    if (!next)
        return;
    next->first = next->woken = true;
    request_wake(next->rq);
}

static bool are_others_late(const struct core_request *rq)
{
    const struct spending *spending = &rq->loop->spending;

    return rq->loop->now_ms < spending->late_until_ms &&
           spending_has_others(spending, &rq->owner, rq->loop->now_ms);
}

/* 0: it goes on; -1: it is refused. */
static int await_turn(struct loop *loop, struct quota_turn *turn)
{
    struct core_request *rq = turn->rq;

    while (are_others_late(rq) && !rq->timed_out) {
        int64_t left_ms = turn->until_ms - loop->now_ms, wait_ms = left_ms;

        if (turn->first)
            wait_ms = spending_wait_ms(&loop->spending, &rq->owner, loop->now_ms);
        if (!wait_ms && turn->first)
            break;
        if (left_ms <= 0)
            return turn->first && spending_lets_go(&loop->spending, &rq->owner, loop->now_ms) ? 0
                                                                                              : -1;
        turn->woken = false;
        request_sleep_unless(rq, wait_ms < left_ms ? wait_ms : left_ms, &turn->woken);
    }
    return 0;
}

static int refuse(struct core_request *rq)
{
    int64_t ms = spending_wait_ms(&rq->loop->spending, &rq->owner, rq->loop->now_ms);
    char seconds[24];

    snprintf(seconds, sizeof seconds, "%lld", (long long)(ms / 1000 + 1));
    reply_header(rq, "Retry-After", seconds);
    return quota_fail(rq, QUOTA_TIME, QUOTA_OWN_FULL);
}

int quota_wait(struct core_request *rq)
{
    struct loop *loop = rq->loop;
    struct spending *spending = &loop->spending;
    struct quota_turn turn = {.rq = rq, .until_ms = loop->now_ms + SPENDING_WAIT_MS};

    if (!are_others_late(rq) || quota_owner_host(&rq->owner) ||
        (!spending_wait_ms(spending, &rq->owner, loop->now_ms) && !has_turn(loop, &rq->owner)))
        return 0;
    join(loop, &turn);
    int status = await_turn(loop, &turn);

    leave(loop, &turn);
    if (status)
        return refuse(rq);
    spending_advance(spending, &rq->owner, loop->now_ms);
    return 0;
}
