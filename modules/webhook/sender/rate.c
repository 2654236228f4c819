/*
 * Rate limits of webhooks: at most `limit` attempts start in any period. A ring has the times of
 * the last `limit` starts; the next attempt may start one period after the oldest of them. Only the
 * owner of the shard sends, so the limit holds for all hosts together. A new owner does not know
 * the attempts of the previous one, and waits for one period.
 *
 * In addition, each host sends at most PACE_BYTES of bodies a second for all webhooks of an account
 * together, after a burst of a second: otherwise an account with many webhooks and large events
 * would use as much of the processors and of the network as the sender can. A delivery that exceeds
 * this waits for the time at which the bodies before it will have been sent at this rate.
 */
#include "modules/webhook/sender/internal.h"

#include <stdlib.h>

enum { PACE_BYTES = 16 * 1024 * 1024, PACE_BURST_US = 1000000, PACE_PROBES = 8 };

int rate_set(const struct sender *sender, struct subscription *subscription, size_t limit,
             int64_t period_ms)
{
    struct rate *rate = &subscription->rate, old = *rate;
    int64_t gained_ms = sender->gained_ms[(uint64_t)subscription->node.id % SENDER_SHARDS];

    if (limit == old.limit && period_ms == old.period_ms)
        return 0;
    int64_t *starts = calloc(limit ? limit : 1, sizeof(*starts));

    if (!starts)
        return -1;
    /* Starts that are not known: those before the webhook had a limit, or this host its shard. */
    for (size_t i = 0; i < limit; i++)
        starts[i] = subscription->read_once ? sender->now_ms : gained_ms;
    for (size_t i = 1; i <= limit && i <= old.limit; i++) /* the latest ones */
        starts[limit - i] = old.starts[(old.next + old.limit - i) % old.limit];
    *rate = (struct rate){.limit = limit,
                          .period_ms = period_ms,
                          .starts = starts,
                          .open_at = old.open_at,
                          .paced_ms = old.paced_ms};
    free(old.starts);
    return 0;
}

/* Other hosts may have started attempts until now. */
void rate_forget(const struct sender *sender, struct subscription *subscription)
{
    for (size_t i = 0; i < subscription->rate.limit; i++)
        subscription->rate.starts[i] = sender->now_ms;
}

bool rate_is_open(const struct subscription *subscription, int64_t now_ms)
{
    const struct rate *rate = &subscription->rate;

    return rate->paced_ms <= now_ms &&
           (!rate->limit || rate->starts[rate->next] + rate->period_ms <= now_ms);
}

/* Returns the account's pace; NULL if all places for it are in use by other accounts. */
static struct pace *rate_pace(struct sender *sender, int64_t account, int64_t least_us)
{
    struct pace *unused = NULL;

    for (uint64_t i = 0; i < PACE_PROBES; i++) {
        struct pace *pace = &sender->paces[((uint64_t)account + i) % SENDER_PACES];

        if (pace->account == account)
            return pace;
        if (!unused && pace->at_us <= least_us)
            unused = pace;
    }
    if (unused)
        unused->account = account;
    return unused;
}

bool rate_admits(struct sender *sender, struct subscription *subscription, size_t bytes)
{
    int64_t now_us = 1000 * sender->now_ms, least_us = now_us - PACE_BURST_US;
    struct rate *rate = &subscription->rate;
    struct pace *pace = rate->paced_ms ? NULL : rate_pace(sender, subscription->account, least_us);

    if (pace) {
        int64_t begin_us = pace->at_us > least_us ? pace->at_us : least_us;

        pace->at_us = begin_us + (int64_t)bytes * 1000000 / PACE_BYTES;
        if (begin_us > now_us)
            rate->paced_ms = begin_us / 1000 + 1;
        return begin_us <= now_us;
    }
    rate->paced_ms = 0;
    return true;
}

void rate_note(struct sender *sender, struct subscription *subscription)
{
    struct rate *rate = &subscription->rate;

    if (!rate->limit)
        return;
    rate->starts[rate->next] = bb_now_ms(sender->host);
    rate->next = (rate->next + 1) % rate->limit;
    if (!rate_is_open(subscription, sender->now_ms))
        subscription_update(sender, subscription);
}

static void rate_due(struct sender *sender, struct timer *timer)
{
    subscription_update(sender, BB_CONTAINER_OF(timer, struct subscription, rate.open_at));
}

int rate_wait(struct sender *sender, struct subscription *subscription)
{
    struct rate *rate = &subscription->rate;

    timer_heap_remove(&sender->timers, &rate->open_at);
    rate->open_at.at_ms = rate->limit ? rate->starts[rate->next] + rate->period_ms : 0;
    if (rate->open_at.at_ms < rate->paced_ms)
        rate->open_at.at_ms = rate->paced_ms;
    rate->open_at.due = rate_due;
    return timer_heap_add(&sender->timers, &rate->open_at);
}
