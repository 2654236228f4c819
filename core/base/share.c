#include "core/base/share.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 256 };

struct share {
    struct share *next; /* of its row */
    struct share_owner owner;
    size_t bytes;
};

struct shares {
    pthread_mutex_t lock;
    atomic_size_t bytes; /* of all; changed under the lock */
    struct share *rows[ROWS];
};

struct shares *shares_new(void)
{
    struct shares *shares = calloc(1, sizeof *shares);

    if (shares && pthread_mutex_init(&shares->lock, NULL)) {
        free(shares);
        return NULL;
    }
    return shares;
}

void shares_free(struct shares *shares)
{
    if (!shares)
        return;
    for (size_t i = 0; i < ROWS; i++) {
        struct share *next;

        for (struct share *at = shares->rows[i]; at; at = next) {
            next = at->next;
            free(at);
        }
    }
    pthread_mutex_destroy(&shares->lock);
    free(shares);
}

bool share_owner_same(const struct share_owner *one, const struct share_owner *other)
{
    return one->account == other->account &&
           !memcmp(&one->network, &other->network, sizeof one->network);
}

bool share_owner_host(const struct share_owner *owner)
{
    return share_owner_same(owner, &(struct share_owner){0});
}

uint64_t share_owner_hash(const struct share_owner *owner)
{
    uint64_t words[2];

    memcpy(words, &owner->network, sizeof words);
    uint64_t hash = (uint64_t)owner->account ^ words[0] * 3 ^ words[1];

    return hash * 0x9e3779b97f4a7c15U >> 32;
}

/* The link that leads to the owner's share, or the one at which it is to be put. Under the lock. */
static struct share **find(struct shares *shares, const struct share_owner *owner)
{
    struct share **at = &shares->rows[share_owner_hash(owner) % ROWS];

    while (*at && !share_owner_same(&(*at)->owner, owner))
        at = &(*at)->next;
    return at;
}

static struct share *begin(struct share **at, const struct share_owner *owner)
{
    struct share *share = calloc(1, sizeof *share);

    if (share) {
        share->owner = *owner;
        *at = share;
    }
    return share;
}

/* Whether `now` is within the bound, or all of one piece of work's. */
static bool fits(size_t now, size_t bound, size_t own)
{
    return now <= bound || now == own;
}

enum share_answer share_take(struct shares *shares, const struct share_owner *owner, size_t held,
                             size_t more, const struct share_bounds *bounds)
{
    enum share_answer answer = SHARE_TAKEN;

    pthread_mutex_lock(&shares->lock);
    struct share **at = find(shares, owner);
    size_t own = *at ? (*at)->bytes : 0;

    if (!fits(own + more, bounds->each, held + more))
        answer = SHARE_OWN_FULL;
    else if (!fits(shares->bytes + more, bounds->all, held + more))
        answer = SHARE_ALL_FULL;
    else if (!*at && !begin(at, owner))
        answer = SHARE_NO_MEMORY;
    if (answer == SHARE_TAKEN) {
        (*at)->bytes += more;
        shares->bytes += more;
    }
    pthread_mutex_unlock(&shares->lock);
    return answer;
}

/* Nothing is locked where not even all together hold so much. */
bool share_is_full(struct shares *shares, const struct share_owner *owner, size_t each)
{
    if (shares_taken(shares) < each)
        return false;
    pthread_mutex_lock(&shares->lock);
    const struct share *share = *find(shares, owner);
    bool full = share && share->bytes >= each;
    pthread_mutex_unlock(&shares->lock);
    return full;
}

size_t share_of(struct shares *shares, const struct share_owner *owner)
{
    pthread_mutex_lock(&shares->lock);
    const struct share *share = *find(shares, owner);
    size_t bytes = share ? share->bytes : 0;
    pthread_mutex_unlock(&shares->lock);
    return bytes;
}

void share_give(struct shares *shares, const struct share_owner *owner, size_t bytes)
{
    pthread_mutex_lock(&shares->lock);
    struct share **at = find(shares, owner), *share = *at;

    if (!share)
        abort(); /* it was never taken */
    share->bytes -= bytes;
    shares->bytes -= bytes;
    if (!share->bytes) {
        *at = share->next;
        free(share);
    }
    pthread_mutex_unlock(&shares->lock);
}

size_t shares_taken(struct shares *shares)
{
    return atomic_load_explicit(&shares->bytes, memory_order_relaxed);
}
