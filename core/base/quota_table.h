/*
 * Quotas: who holds how much of something that all share and that is bounded, so that nobody takes
 * the whole of it. Whoever holds something is in a table, by the account or, where there is none,
 * by the network that it comes from; who has let go of everything is not. Any thread.
 */
#ifndef CORE_QUOTA_TABLE_H
#define CORE_QUOTA_TABLE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct quota_table;

struct quota_owner {
    int64_t account;         /* 0: none */
    struct in6_addr network; /* address_network(); zero where there is an account */
};

/* Whether it is nobody's: the host's own. */
bool quota_owner_host(const struct quota_owner *owner);
uint64_t quota_owner_hash(const struct quota_owner *owner);
bool quota_owner_same(const struct quota_owner *one, const struct quota_owner *other);

/* The part of a table that a piece of work holds, zeroed at first. It keeps the owner that was
 * charged, because the work may belong to another one when it releases the charge. */
struct quota_charge {
    struct quota_owner owner;
    size_t bytes; /* 0: it holds nothing, and the next owner counts */
};

/* How much there is: for all together, for each owner. */
struct quota_limits {
    size_t all, each;
};

enum quota_result { QUOTA_TAKEN, QUOTA_OWN_FULL, QUOTA_ALL_FULL, QUOTA_NO_MEMORY };

struct quota_table *quota_table_new(void);
void quota_table_free(struct quota_table *table);

/*
 * Adds `more` to the charge; to the owner that it has, or to `owner` if it holds nothing. A piece
 * of work that has a bound to itself may exceed it: otherwise work larger than the bound could
 * never be done.
 */
enum quota_result quota_take(struct quota_table *table, struct quota_charge *charge,
                             const struct quota_owner *owner, size_t more,
                             const struct quota_limits *bounds);

/* Whether the owner holds as much as it may: to be asked before work that takes more anyway. */
bool quota_is_full(struct quota_table *table, const struct quota_owner *owner, size_t each);

/*
 * Releases a part of the charge. If the charge or its owner holds less, that is a bug of the
 * caller: it is logged, and the rest is released.
 */
void quota_release(struct quota_table *table, struct quota_charge *charge, size_t bytes);
/* Releases all of it. */
void quota_release_all(struct quota_table *table, struct quota_charge *charge);

/* What the owner holds. */
size_t quota_entry_of(struct quota_table *table, const struct quota_owner *owner);

/* What all hold together. */
size_t quota_taken(struct quota_table *table);

#endif
