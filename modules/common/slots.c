#include "modules/common/slots.h"

#include <busbar/lock.h>

enum { PAUSE_MS = 20, PAUSES = 100 };

struct slots {
    pthread_mutex_t lock;
    const char *what;
    int64_t each;
    size_t count;
    int64_t accounts[]; /* the account that holds each slot; 0: free */
};

struct slots *slots_new(struct bb_host *host, int64_t count, int64_t each, const char *what)
{
    struct slots *slots =
        bb_host_alloc(host, sizeof(*slots) + (size_t)count * sizeof(slots->accounts[0]));

    if (!slots || pthread_mutex_init(&slots->lock, NULL))
        return NULL;
    slots->what = what;
    slots->each = each;
    slots->count = (size_t)count;
    return slots;
}

void slots_free(struct slots *slots)
{
    if (slots)
        pthread_mutex_destroy(&slots->lock);
}

int slot_try(struct slots *slots, int64_t account)
{
    size_t free = slots->count;
    int64_t own = 0;

    BB_LOCKED(&slots->lock);
    for (size_t i = 0; i < slots->count; i++) {
        own += slots->accounts[i] == account;
        if (!slots->accounts[i])
            free = i;
    }
    if (own >= slots->each)
        return 429;
    if (free == slots->count)
        return 503;
    slots->accounts[free] = account;
    return 0;
}

static void slot_take_within(struct bb_request *rq, struct slots *slots, int pauses)
{
    int status;

    while ((status = slot_try(slots, rq->principal->account)) && pauses--)
        if (bb_sleep(rq, PAUSE_MS))
            bb_end(rq, bb_no_memory(rq));
    if (!status)
        return;
    bb_reply_header(rq, "Retry-After", "5");
    bb_end(rq, bb_fail(rq, status, "Too many %s in progress%s", slots->what,
                       status == 429 ? " for this account" : ""));
}

void slot_take(struct bb_request *rq, struct slots *slots)
{
    slot_take_within(rq, slots, 0);
}

void slot_await(struct bb_request *rq, struct slots *slots)
{
    slot_take_within(rq, slots, PAUSES);
}

void slot_release(struct slots *slots, int64_t account)
{
    BB_LOCKED(&slots->lock);
    for (size_t i = 0; i < slots->count; i++)
        if (slots->accounts[i] == account) {
            slots->accounts[i] = 0;
            return;
        }
}

struct held {
    struct slots *slots;
    int64_t account;
};

static void slot_leave(void *arg)
{
    const struct held *held = arg;

    slot_release(held->slots, held->account);
}

void slot_hold(struct bb_request *rq, struct slots *slots)
{
    struct held *held = bb_alloc(rq, sizeof(*held));

    *held = (struct held){slots, rq->principal->account};
    bb_defer(rq, slot_leave, held);
}
