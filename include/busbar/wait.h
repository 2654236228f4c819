/*
 * What a request waits for beside PostgreSQL: work on a thread of a pool, another thread's
 * completion, Redis; and whether what the host depends on is there. Those that wait park the fiber.
 */
#ifndef BUSBAR_WAIT_H
#define BUSBAR_WAIT_H

#include <busbar/request.h>

/*
 * Runs work(arg) on a thread of a pool that the module declared, and waits for it. `arg` may lie on
 * the fiber's stack. 0; or -1 when the pool's queue is full or the deadline passed (bb_failed()
 * answers it). `work` must touch nothing but its argument.
 *
 * When the deadline of a request over HTTP passes while `work` runs, its client is answered 503 at
 * once. The handler goes on when `work` has returned, with -1: it has to undo what it did, and
 * nobody sees what it answers. Jobs, hooks and commands wait for `work`, and so does a request
 * whose transaction was committed.
 */
static inline int bb_offload(struct bb_request *rq, const char *pool, void (*work)(void *),
                             void *arg)
{
    return rq->api->offload(rq, pool, work, arg);
}

/*
 * The same on behalf of a subject, as the account whose password is tried: a hash of its name, not
 * 0. All calls for a subject have together the share of the pool that one caller has, and wait in
 * one line, from however many addresses they come. Since minor 3.
 */
static inline int bb_offload_for(struct bb_request *rq, const char *pool, uint64_t subject,
                                 void (*work)(void *), void *arg)
{
    return rq->api->offload_for(rq, pool, subject, work, arg);
}

/*
 * Whether a dependency gave a sign of life within the last second. The host asks several times a
 * second, beside the connections of the requests, so nobody waits and nothing can be flooded.
 * 0 with *latency_ms; -1: down; 1: none is configured.
 *
 * BB_SCHEMA is down until the database's tables are known to fit the modules that are loaded,
 * BB_HOST once the host stops, and while one of its event loops stands; neither takes time.
 * BB_CLOCK is down while this host's clock differs from PostgreSQL's by more than 30 seconds;
 * *latency_ms is then, and otherwise, by how much PostgreSQL's is ahead.
 */
static inline int bb_probe(struct bb_request *rq, enum bb_dependency dependency,
                           int64_t *latency_ms)
{
    return rq->api->probe(rq, dependency, latency_ms);
}

/*
 * A completion: something that another thread will finish. Whoever was given it must signal it with
 * bb_completion_signal(), whether the request still waits or not. NULL: out of memory.
 */
static inline struct bb_completion *bb_completion(struct bb_request *rq)
{
    return rq->api->gate(rq);
}

/* Waits until it is signalled: 0; or -1 after timeout_ms or at the deadline. Once for each. */
static inline int bb_completion_wait(struct bb_request *rq, struct bb_completion *completion,
                                     int64_t timeout_ms)
{
    return rq->api->gate_wait(rq, completion, timeout_ms);
}

enum bb_redis_type { BB_REDIS_NIL, BB_REDIS_INT, BB_REDIS_TEXT, BB_REDIS_LIST, BB_REDIS_ERROR };

struct bb_redis_reply {
    enum bb_redis_type type;
    int64_t integer;
    const char *text;
    size_t length;
    const struct bb_redis_reply *items;
    size_t count;
};

/*
 * A command to Redis: argc arguments, lengths NULL for NUL-terminated ones. NULL while Redis is
 * down, slow (at most redis.timeout) or refuses writes, and when the answer is an error: do without
 * it, nothing is recorded for bb_failed().
 */
static inline const struct bb_redis_reply *bb_redis(struct bb_request *rq, int argc,
                                                    const char *const *argv, const size_t *lengths)
{
    return rq->api->redis(rq, argc, argv, lengths);
}

#endif
