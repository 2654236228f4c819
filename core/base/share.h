/*
 * Shares: who holds how much of something that all share and that is bounded, so that nobody takes
 * the whole of it. Whoever holds something is in a table, by the account or, where there is none,
 * by the network that it comes from; who has let go of everything is not. Any thread.
 */
#ifndef CORE_SHARE_H
#define CORE_SHARE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shares;

struct share_owner {
    int64_t account;         /* 0: none */
    struct in6_addr network; /* address_network(); zero where there is an account */
};

/* Whether it is nobody's: the host's own. */
bool share_owner_host(const struct share_owner *owner);
uint64_t share_owner_hash(const struct share_owner *owner);
bool share_owner_same(const struct share_owner *one, const struct share_owner *other);

/* How much there is: for all together, for each owner. */
struct share_bounds {
    size_t all, each;
};

enum share_answer { SHARE_TAKEN, SHARE_OWN_FULL, SHARE_ALL_FULL, SHARE_NO_MEMORY };

struct shares *shares_new(void);
void shares_free(struct shares *shares);

/*
 * Takes `more` for a piece of work that holds `held` already. One piece of work may go beyond a
 * bound that it has for itself: else what is larger than the bound could never be done.
 */
enum share_answer share_take(struct shares *shares, const struct share_owner *owner, size_t held,
                             size_t more, const struct share_bounds *bounds);

/* Whether the owner holds as much as it may: to be asked before work that takes more anyway. */
bool share_is_full(struct shares *shares, const struct share_owner *owner, size_t each);

/* Gives back what was taken, or a part of it. */
void share_give(struct shares *shares, const struct share_owner *owner, size_t bytes);

/* What the owner holds. */
size_t share_of(struct shares *shares, const struct share_owner *owner);

/* What all hold together. */
size_t shares_taken(struct shares *shares);

#endif
