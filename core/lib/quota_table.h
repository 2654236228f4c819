/*
 * Quotas: limit how much of a shared resource each owner may hold, so that no owner can take all of
 * it. A table contains the owners that hold something, identified by account, or by network for
 * clients without an account; an owner that releases everything is removed. Any thread.
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
    struct in6_addr network; /* address_network(); zero if there is an account */
};

/* Whether this is the host itself, with neither account nor network. */
bool quota_owner_host(const struct quota_owner *owner);
uint64_t quota_owner_hash(const struct quota_owner *owner);
bool quota_owner_same(const struct quota_owner *one, const struct quota_owner *other);

/*
 * The amount that a task holds, initially zero. It stores the owner that was charged, because the
 * task may belong to another owner when it releases the charge.
 */
struct quota_charge {
    struct quota_owner owner;
    size_t bytes; /* 0: nothing is held, and the next quota_take() sets the owner */
};

/* The limits: in total, and for each owner. */
struct quota_limits {
    size_t all, each;
};

enum quota_result { QUOTA_TAKEN, QUOTA_OWN_FULL, QUOTA_ALL_FULL, QUOTA_NO_MEMORY };

struct quota_table *quota_table_new(void);
void quota_table_free(struct quota_table *table);

/*
 * Adds `more` to the charge. The charge keeps its owner, or gets `owner` if it holds nothing. A
 * task that is the only one in a bound may exceed it: otherwise a task larger than the bound could
 * never run.
 */
enum quota_result quota_take(struct quota_table *table, struct quota_charge *charge,
                             const struct quota_owner *owner, size_t more,
                             const struct quota_limits *bounds);

/* Whether the owner has reached its limit. Check this before work that will need a charge. */
bool quota_is_full(struct quota_table *table, const struct quota_owner *owner, size_t each);

/*
 * Releases a part of the charge. If the charge or its owner holds less, that is a bug of the
 * caller: it is logged, and the remaining amount is released.
 */
void quota_release(struct quota_table *table, struct quota_charge *charge, size_t bytes);
/* Releases the whole charge. */
void quota_release_all(struct quota_table *table, struct quota_charge *charge);

/* The amount that the owner holds. */
size_t quota_entry_of(struct quota_table *table, const struct quota_owner *owner);

/* The amount that all owners hold together. */
size_t quota_taken(struct quota_table *table);

#endif
