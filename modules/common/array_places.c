/*
 * The long answers under way. Each is a place that an account holds: together they bound the memory
 * of the host, and one account's do not take them all. Who finds none waits for some seconds.
 */
#include <pthread.h>

#include "modules/common/array.h"

enum { PAUSE_MS = 20, PAUSES = 100 };

struct array_places {
    pthread_mutex_t lock;
    size_t each, count;
    int64_t accounts[]; /* who holds a place; 0: nobody */
};

struct array_places *array_places_new(struct bb_host *host, size_t count, size_t each)
{
    struct array_places *places =
        bb_host_alloc(host, sizeof(*places) + count * sizeof(places->accounts[0]));

    if (!places || pthread_mutex_init(&places->lock, NULL))
        return NULL;
    places->each = each;
    places->count = count;
    return places;
}

void array_places_free(struct array_places *places)
{
    pthread_mutex_destroy(&places->lock);
}

/* 0; 429: the account has its share; 503: all are taken. */
static int take(struct array_places *places, int64_t account)
{
    size_t own = 0, free = places->count;
    int status = 0;

    pthread_mutex_lock(&places->lock);
    for (size_t i = 0; i < places->count; i++) {
        own += places->accounts[i] == account;
        if (!places->accounts[i])
            free = i;
    }
    if (own >= places->each)
        status = 429;
    else if (free == places->count)
        status = 503;
    else
        places->accounts[free] = account;
    pthread_mutex_unlock(&places->lock);
    return status;
}

int array_place_take(struct bb_request *rq, struct array_places *places)
{
    int64_t account = rq->principal->account;
    int status = take(places, account);

    for (int pauses = 0; status && pauses < PAUSES; pauses++) {
        struct bb_gate *gate = bb_gate(rq);

        if (!gate)
            return bb_no_memory(rq);
        bb_gate_wait(rq, gate, PAUSE_MS); /* nobody opens it: it is a pause */
        bb_gate_open(rq->host, gate);
        status = take(places, account);
    }
    if (!status)
        return 0;
    bb_reply_header(rq, "Retry-After", "5");
    return bb_fail(rq, status,
                   status == 429 ? "This account has too many long answers under way"
                                 : "Too many long answers are under way");
}

void array_place_give(struct array_places *places, int64_t account)
{
    pthread_mutex_lock(&places->lock);
    for (size_t i = 0; i < places->count; i++)
        if (places->accounts[i] == account) {
            places->accounts[i] = 0;
            break;
        }
    pthread_mutex_unlock(&places->lock);
}
