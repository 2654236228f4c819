/*
 * Thread pools for calls that block or use much CPU time: bb_offload(). Each generation has the
 * pools of its modules, and a pool of the host with one thread more than loops. A pool starts with
 * one thread and adds more if all are busy. Its queue is bounded, each owner has a share of it
 * (quota.h), and owners are served in turn. A call can also count for a subject, such as the
 * account whose password is checked; it then waits among the calls of its owner or of its subject,
 * whichever has more.
 */
#ifndef CORE_POOL_H
#define CORE_POOL_H

#include "core/module/generation.h"
#include "core/module/quota.h"
#include "core/module/request.h"

struct work_pools;

/* Starts all pools. Returns NULL, after logging, if a pool's first thread cannot be created. */
struct work_pools *work_pools_new(const struct generation *generation);

/* Runs the queued calls, then joins the threads. No further call may be submitted. */
void work_pools_free(struct work_pools *pools);

/* A call of a pool. The caller keeps this struct until `message` has run on the loop. */
struct pool_call {
    struct message message; /* first member; runs on the loop after `run` has returned */
    struct fair_entry queued;
    struct quota_owner owner;  /* zero: the host */
    uint64_t subject;          /* such as the account whose password is checked; 0: none */
    struct quota_entry *other; /* a call with a subject has two entries: queued.owner and this */
    struct loop *loop;
    void (*run)(void *arg);
    void *arg;
    int64_t begun_us;        /* when a thread started it */
    struct account *account; /* the module that is charged for the call; NULL: the host */
};

/*
 * Queues a call in the module's pool `name`, without waiting for it. Returns 0, or -1 if memory ran
 * out or, if `bounded` is set, the queue is full. Callers with one call at a time pass false.
 */
int pool_submit(struct work_pools *pools, const struct bb_host *host, const char *name,
                struct pool_call *call, bool bounded);

/* State of a pool for monitoring. */
struct work_pool_status {
    const char *module, *name; /* live as long as the generation */
    unsigned threads, started, busy, waiting;
    unsigned queue; /* maximum of `waiting` */
    size_t each;    /* maximum of calls of one owner */
};

/* Gets the state of the pool with this index; returns false after the last one. Any thread. */
bool work_pool_snapshot(struct work_pools *pools, size_t index, struct work_pool_status *status);

/*
 * Runs run(arg) in the host's own pool while the fiber waits. Returns 0 after the call. Returns -1
 * with the request's failure set if the call was not started, because the pool is full, the owner
 * has used up its share, or the deadline has passed.
 */
int pool_run(struct core_request *rq, void (*run)(void *), void *arg);

/*
 * Worker threads of modules. Each generation has its own threads, which have references to the
 * generation. The threads are created before the generation goes live, wait until workers_go(), and
 * run until workers_stop(). They must end before the loops, which run the tasks of their bb_run().
 */

struct workers;

/* Creates the threads of all workers. Returns NULL, after logging, if one cannot be created. */
struct workers *workers_new(struct generation *generation);

void workers_go(struct workers *workers);

/* Asks all workers to return by until_ms (monotonic). A later call can only set an earlier time. */
void workers_stop(struct workers *workers, int64_t until_ms);

/* Returns the number of workers that have not returned. Any thread. */
size_t workers_running(const struct workers *workers);

/* Stops, joins and frees the workers. */
void workers_free(struct workers *workers);

#endif
