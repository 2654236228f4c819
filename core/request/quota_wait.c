#include <inttypes.h>
#include <stdio.h>

#include "core/loop/loop.h"
#include "core/request/quota.h"
#include "core/request/reply.h"

enum { LINE_MOST = 64 /* requests of one owner that wait */ };

/* Of a request that waits; on its fiber's stack. Its owner's entry has no other owner meanwhile. */
struct quota_turn {
    struct core_request *rq;
    struct spending_entry *entry;
    struct quota_turn *before, *next;
    int64_t until_ms;
    bool woken;
};

static void join(struct quota_turn *turn)
{
    struct spending_entry *entry = turn->entry;

    turn->before = entry->last;
    if (entry->last)
        entry->last->next = turn;
    else
        entry->first = turn;
    entry->last = turn;
    entry->waiting++;
}

static void leave(struct quota_turn *turn)
{
    struct spending_entry *entry = turn->entry;
    bool was_first = entry->first == turn;

    *(turn->before ? &turn->before->next : &entry->first) = turn->next;
    *(turn->next ? &turn->next->before : &entry->last) = turn->before;
    entry->waiting--;
    if (!was_first || !entry->first)
        return;
    entry->first->woken = true;
    request_wake(entry->first->rq);
}

static bool are_others_late(const struct core_request *rq)
{
    const struct spending *spending = &rq->loop->spending;

    return rq->loop->now_ms < spending->late_until_ms &&
           spending_has_others(spending, &rq->owner, rq->loop->now_ms);
}

/* 0: it goes on, as it does where there is no memory to wait; -1: it is refused. */
static int await_turn(struct spending *spending, struct quota_turn *turn)
{
    struct core_request *rq = turn->rq;
    const struct loop *loop = rq->loop;

    while (are_others_late(rq) && !rq->timed_out) {
        int64_t left_ms = turn->until_ms - loop->now_ms, wait_ms = left_ms;
        bool first = turn->entry->first == turn;

        if (first)
            wait_ms = spending_wait_ms(spending, turn->entry, loop->now_ms);
        if (first && !wait_ms)
            break;
        if (left_ms <= 0)
            return first && spending_lets_go(turn->entry, loop->now_ms) ? 0 : -1;
        turn->woken = false;
        if (request_sleep_unless(rq, wait_ms < left_ms ? wait_ms : left_ms, &turn->woken))
            break;
    }
    return 0;
}

static int refuse(struct core_request *rq, int64_t owed_ms)
{
    char seconds[24];

    snprintf(seconds, sizeof seconds, "%" PRId64, owed_ms / 1000 + 1);
    reply_header(rq, "Retry-After", seconds);
    return quota_fail(rq, QUOTA_TIME, QUOTA_OWN_FULL);
}

static int wait_in_line(struct core_request *rq, struct spending_entry *entry)
{
    struct spending *spending = &rq->loop->spending;
    struct quota_turn turn = {
        .rq = rq, .entry = entry, .until_ms = rq->loop->now_ms + SPENDING_WAIT_MS};
    int status = -1;

    if (entry->waiting < LINE_MOST) {
        join(&turn);
        status = await_turn(spending, &turn);
        if (!status)
            spending_advance(spending, entry, rq->loop->now_ms);
        leave(&turn);
    }
    return status ? refuse(rq, spending_wait_ms(spending, entry, rq->loop->now_ms)) : 0;
}

int quota_wait(struct core_request *rq)
{
    struct spending *spending = &rq->loop->spending;

    if (!are_others_late(rq))
        return 0;
    struct spending_entry *entry = spending_entry_of(spending, &rq->owner);

    if (!entry || (!entry->waiting && !spending_wait_ms(spending, entry, rq->loop->now_ms)))
        return 0;
    return wait_in_line(rq, entry);
}
