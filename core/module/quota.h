/*
 * Fairness: connections, requests, memory, disk space, threads and the pools of the database are
 * shared and limited. Two rules apply to each of them:
 *
 *  - A cap: an owner may hold at most a part of the resource (`http.client_percent`). The owner is
 *    the account, or without a token the address (with IPv6 the 64-bit network). Requests beyond
 *    the cap are answered 429, requests beyond the total 503. Work of the host itself (jobs,
 *    workers, commands, hooks after a commit) is never refused.
 *  - Turns: entries that wait are served round robin by owner, one entry of each owner at a time,
 *    so that many entries of one owner delay another owner by only one entry.
 *
 * This is the whole policy: nine limits and all queues use these 500 lines. With all attacks of
 * `bench/run against` at once, the 99th percentile of other clients' reads rose from 2.5 to 5.5 ms,
 * and none of their requests was refused.
 *
 * A table contains the owners that hold something or wait. Any thread may use a table. A queue of
 * a table belongs to one thread, or is protected by the caller's lock.
 */
#ifndef CORE_QUOTA_H
#define CORE_QUOTA_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core_request;
struct generation;

enum quota {
    QUOTA_CONNECTIONS,
    QUOTA_REQUESTS,
    QUOTA_ANONYMOUS, /* requests without a token, a part of these */
    QUOTA_BODIES,
    QUOTA_ANSWERS,
    QUOTA_UPLOADS,
    QUOTA_POOLS,    /* each pool of threads has its own table */
    QUOTA_DATABASE, /* each pool of connections has its own table */
    QUOTAS,
    QUOTA_UNWRITTEN = QUOTAS, /* JSON that waits to be written as an answer; without metrics */
    QUOTA_TABLES
};
extern const char *const quota_names[QUOTAS];

/* The host itself has neither account nor network. */
struct quota_owner {
    int64_t account;         /* 0: none */
    struct in6_addr network; /* address_network(); zero if there is an account */
};

bool quota_owner_same(const struct quota_owner *one, const struct quota_owner *other);

/* Whether the request is exempt from its owner's limits. */
bool quota_exempt(const struct core_request *rq);

/* ---- caps ---- */

struct quota_table {
    pthread_mutex_t lock;
    atomic_size_t taken; /* by all owners; changed under the lock */
    unsigned queues;     /* number of queues that use the table */
    struct quota_entry *spares, *rows[256];
};
#define QUOTA_TABLE(queue_count)                                                                   \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .queues = (queue_count)                                 \
    }

void quota_table_free(struct quota_table *table); /* frees its content */

/* The tables that all loops share. */
extern struct quota_table quota_tables[QUOTA_TABLES];

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

/* `percent` of `all`, at least 1. */
size_t quota_part(size_t percent, size_t all);
/* The limits for requests in progress, requests without a token, bodies, answers and uploads. */
struct quota_limits quota_bounds(const struct generation *generation, enum quota quota);

enum quota_result { QUOTA_TAKEN, QUOTA_OWN_FULL, QUOTA_ALL_FULL, QUOTA_NO_MEMORY };

/*
 * Adds `more` to the charge. The charge keeps its owner, or gets `owner` if it holds nothing. A
 * task that is the only one in a bound may exceed it: otherwise a task larger than the bound could
 * never run.
 */
enum quota_result quota_take(struct quota_table *table, struct quota_charge *charge,
                             const struct quota_owner *owner, size_t more,
                             const struct quota_limits *bounds);

/* Takes for the request's owner. Returns 0, or -1 with the refusal counted and recorded. */
int quota_charge(struct core_request *rq, enum quota quota, struct quota_charge *charge,
                 size_t more, const struct quota_limits *bounds);

/*
 * Releases a part of the charge, or all of it. If the charge or its owner holds less, that is a bug
 * of the caller: it is logged, and the remaining amount is released.
 */
void quota_release(struct quota_table *table, struct quota_charge *charge, size_t bytes);
void quota_release_all(struct quota_table *table, struct quota_charge *charge);

/* The amounts that the owner holds, and all owners together. */
size_t quota_entry_of(struct quota_table *table, const struct quota_owner *owner);
size_t quota_taken(struct quota_table *table);

/* Counts a refusal: `own` if the owner's share is used up, otherwise the total. Any thread. */
void quota_count(enum quota quota, bool own);
unsigned long long quota_refused(enum quota quota, bool own);

/* Counts a refusal and records it as the request's failure. Returns -1. */
int quota_fail(struct core_request *rq, enum quota quota, enum quota_result why);

/* ---- turns ---- */

/* Embedded in the object that waits. */
struct fair_entry {
    struct fair_entry *next;
    struct quota_entry *owner; /* result of fair_enter() */
};

/* The waiting entries of one owner in one queue. */
struct fair_flow {
    struct fair_flow *next; /* of the queue */
    struct fair_entry *first, *last;
    unsigned round, taken; /* for the caller: its last round, and the entries taken in it */
};

/* An owner in a table. */
struct quota_entry {
    struct quota_entry *next; /* in its row, or among the spares */
    struct quota_owner owner;
    size_t taken;   /* what it holds, including the entries that have entered and not yet left */
    size_t running; /* the entries in progress, for callers that count them */
    struct fair_flow flows[];
};

struct fair_queue {
    unsigned index; /* its index among the queues of the table */
    unsigned flows; /* number of flows with waiting entries */
    struct fair_flow *first, *last;
};

/* Counts an entry of this owner if it has fewer than `each`; or NULL with the reason. */
struct quota_entry *fair_enter(struct quota_table *table, const struct quota_owner *owner,
                               size_t each, enum quota_result *why);
void fair_leave(struct quota_table *table, struct quota_entry *owner);

/* Appends an entry to its owner's flow. */
void fair_wait(struct fair_queue *queue, struct fair_entry *entry);

/* Returns the entry that is served next; NULL if none waits. */
struct fair_entry *fair_first(const struct fair_queue *queue);
struct fair_flow *fair_flow(const struct fair_queue *queue, const struct fair_entry *entry);

/* Removes and returns the next entry; the flow of the next owner is first afterwards. */
struct fair_entry *fair_take(struct fair_queue *queue);

/* Moves the first flow to the end of the round. */
void fair_skip(struct fair_queue *queue);

/* Removes a waiting entry from any position. */
void fair_cancel(struct fair_queue *queue, struct fair_entry *entry);

#endif
