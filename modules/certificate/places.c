/*
 * The exports under way. Each is a place that an account holds, so that one account's do not take
 * them all, and all together do not fill the lane that lists with a filter wait in.
 */
#include <pthread.h>

#include "certificate.h"

struct certificate_places {
    pthread_mutex_t lock;
    int64_t each;
    size_t count;
    int64_t accounts[]; /* who holds a place; 0: nobody */
};

struct certificate_places *certificate_places_new(struct bb_host *host)
{
    size_t count = (size_t)bb_setting_int(host, "exports");
    struct certificate_places *places =
        bb_host_alloc(host, sizeof(*places) + count * sizeof(places->accounts[0]));

    if (!places || pthread_mutex_init(&places->lock, NULL))
        return NULL;
    places->each = bb_setting_int(host, "exports_per_account");
    places->count = count;
    return places;
}

void certificate_places_free(struct certificate_places *places)
{
    pthread_mutex_destroy(&places->lock);
}

/* Under the lock. How many the account holds; *free: a place that nobody holds, or `count`. */
static int64_t held(const struct certificate_places *places, int64_t account, size_t *free)
{
    int64_t own = 0;

    *free = places->count;
    for (size_t i = 0; i < places->count; i++) {
        own += places->accounts[i] == account;
        if (!places->accounts[i])
            *free = i;
    }
    return own;
}

int certificate_place_take(struct bb_request *rq, struct certificate_places *places)
{
    int64_t account = rq->principal->account;
    size_t place;

    pthread_mutex_lock(&places->lock);
    bool many = held(places, account, &place) >= places->each, full = place == places->count;
    if (!many && !full)
        places->accounts[place] = account;
    pthread_mutex_unlock(&places->lock);
    if (!many && !full)
        return 0;
    bb_reply_header(rq, "Retry-After", "5");
    return many ? bb_fail(rq, 429, "This account has too many exports under way")
                : bb_fail(rq, 503, "Too many exports are under way");
}

void certificate_place_give(struct certificate_places *places, int64_t account)
{
    pthread_mutex_lock(&places->lock);
    for (size_t i = 0; i < places->count; i++)
        if (places->accounts[i] == account) {
            places->accounts[i] = 0;
            break;
        }
    pthread_mutex_unlock(&places->lock);
}
