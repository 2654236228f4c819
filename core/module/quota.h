/*
 * Shares connections, requests, memory, disk space, threads and database connections fairly among
 * clients. Two rules apply to each of these resources:
 *
 *  - A cap: an owner may hold at most a part of the resource (`http.client_percent`). The owner is
 *    the account, or without a token the address (with IPv6 the 64-bit network). Requests beyond
 *    the cap are answered with 429, requests beyond the total with 503. Work of the host itself
 *    (jobs, workers, commands, hooks after a commit) is never refused.
 *  - Turns: waiting entries are served round robin by owner, one entry of each owner at a time. So
 *    an owner waits for at most one entry of each other owner.
 *
 * A quota table contains the owners that hold a part of a resource or wait for it. Any thread may
 * use a table. A queue of a table belongs to one thread, or the caller's lock protects it.
 */
#ifndef CORE_QUOTA_H
#define CORE_QUOTA_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct core_request;
struct generation;

enum quota {
    QUOTA_CONNECTIONS,
    QUOTA_REQUESTS,
    QUOTA_ANONYMOUS, /* requests without a token; they count as QUOTA_REQUESTS, too */
    QUOTA_BODIES,
    QUOTA_ANSWERS,
    QUOTA_UPLOADS,
    QUOTA_POOLS,    /* each pool of threads has its own table */
    QUOTA_DATABASE, /* each pool of connections has its own table */
    QUOTAS,
    QUOTA_UNWRITTEN = QUOTAS, /* JSON that waits to be written as a response; not in metrics */
    QUOTA_TABLES
};
extern const char *const quota_names[QUOTAS];

/* The host itself has neither account nor network. */
struct quota_owner {
    int64_t account;         /* 0: none */
    struct in6_addr network; /* address_network(); zero if there is an account */
};

bool quota_owner_same(const struct quota_owner *one, const struct quota_owner *other);

/* Returns whether the limits of an owner do not apply, because this is not an HTTP request. */
bool quota_exempt(const struct core_request *rq);

/* ---- caps ---- */

struct quota_table {
    pthread_mutex_t lock;
    atomic_size_t taken; /* amount taken by all owners; changed under the lock */
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
 * The amount that a task holds; initially zero. `owner` is the owner that was charged, because the
 * task's owner may change before the task releases the charge.
 */
struct quota_charge {
    struct quota_owner owner;
    size_t bytes; /* 0: nothing is held, and the next quota_take() sets the owner */
};

/* The limits: in total, and for each owner. */
struct quota_limits {
    size_t all, each;
};

/* Returns `percent` of `all`, at least 1. */
size_t quota_part(size_t percent, size_t all);
/* Returns the limits for requests, requests without a token, bodies, responses or uploads. */
struct quota_limits quota_bounds(const struct generation *generation, enum quota quota);

enum quota_result { QUOTA_TAKEN, QUOTA_OWN_FULL, QUOTA_ALL_FULL, QUOTA_NO_MEMORY };

/*
 * Adds `more` to the charge. If the charge holds nothing, its owner becomes `owner`; otherwise it
 * keeps its owner. A charge may exceed a limit if no other charge counts towards this limit,
 * because otherwise a single large charge would always be refused.
 */
enum quota_result quota_take(struct quota_table *table, struct quota_charge *charge,
                             const struct quota_owner *owner, size_t more,
                             const struct quota_limits *bounds);

/* Like quota_take() with the request's owner. Returns 0, or -1 after calling quota_fail(). */
int quota_charge(struct core_request *rq, enum quota quota, struct quota_charge *charge,
                 size_t more, const struct quota_limits *bounds);

/*
 * Releases a part of the charge, or all of it. If the charge or its owner holds less, logs this bug
 * of the caller and releases the remaining amount.
 */
void quota_release(struct quota_table *table, struct quota_charge *charge, size_t bytes);
void quota_release_all(struct quota_table *table, struct quota_charge *charge);

/* Return the amount that the owner holds, and the amount that all owners hold. */
size_t quota_entry_of(struct quota_table *table, const struct quota_owner *owner);
size_t quota_taken(struct quota_table *table);

/* Counts a refusal because of the owner's limit (`own` is true) or of the total. Any thread. */
void quota_count(enum quota quota, bool own);
unsigned long long quota_refused(enum quota quota, bool own);

/* Counts a refusal and records it as the request's failure. Returns -1. */
int quota_fail(struct core_request *rq, enum quota quota, enum quota_result why);

/* ---- turns ---- */

/* Embedded in the object that waits. */
struct fair_entry {
    STAILQ_ENTRY(fair_entry) next;
    struct quota_entry *owner; /* result of fair_enter() */
};

/* The waiting entries of one owner in one queue. */
struct fair_flow {
    STAILQ_ENTRY(fair_flow) next; /* next flow of the queue */
    STAILQ_HEAD(, fair_entry) entries;
    unsigned round, taken; /* set by callers: a round's number, entries taken in that round */
};

/* An owner in a table. */
struct quota_entry {
    struct quota_entry *next; /* in its row of the hash table, or in `spares` */
    struct quota_owner owner;
    size_t taken;          /* amount held; fair_enter() adds 1, and fair_leave() subtracts 1 */
    size_t running;        /* set by callers: number of entries in progress */
    int64_t rest_until_ms; /* set by callers: end of a pause between entries; initially 0 */
    struct fair_flow flows[];
};

struct fair_queue {
    unsigned index;                 /* its index among the queues of the table */
    unsigned flows;                 /* number of flows with waiting entries */
    STAILQ_HEAD(, fair_flow) round; /* the flows with waiting entries, the next one first */
};
#define FAIR_QUEUE(queue, number)                                                                  \
    {                                                                                              \
        .index = (number), .round = STAILQ_HEAD_INITIALIZER((queue).round)                         \
    }

/* Counts an entry. Returns NULL and sets *why if `owner` has `each` entries or memory ran out. */
struct quota_entry *fair_enter(struct quota_table *table, const struct quota_owner *owner,
                               size_t each, enum quota_result *why);
void fair_leave(struct quota_table *table, struct quota_entry *owner);

/* Appends an entry to its owner's flow. */
void fair_wait(struct fair_queue *queue, struct fair_entry *entry);

/* Returns the entry that is served next; NULL if none waits. */
struct fair_entry *fair_first(const struct fair_queue *queue);
struct fair_flow *fair_flow(const struct fair_queue *queue, const struct fair_entry *entry);

/* Removes and returns the next entry, and moves its flow to the round's end; NULL: none waits. */
struct fair_entry *fair_take(struct fair_queue *queue);

/* Moves the first flow to the end of the round. */
void fair_skip(struct fair_queue *queue);

/* Removes an entry from the queue, at any position. */
void fair_cancel(struct fair_queue *queue, struct fair_entry *entry);

#endif
