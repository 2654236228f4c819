/*
 * Functions that park the fiber to wait for a pool thread, a signal from another thread, or Redis.
 * bb_probe() reports whether the host's dependencies are available, without waiting.
 */
#ifndef BUSBAR_WAIT_H
#define BUSBAR_WAIT_H

#include <busbar/request.h>

/*
 * Runs work(arg) on a thread of a pool that the module declared, and waits until `work` returns.
 * `arg` may be on the fiber's stack. `work` must use nothing except its argument. Returns 0, or -1
 * if the pool's queue is full or the deadline passed (bb_failed() answers for both).
 *
 * If the deadline of an HTTP request passes while `work` runs, the client is answered with 503 at
 * once. When `work` has returned, bb_offload() returns -1 to the handler, which must undo the
 * effects of `work`; the host discards the handler's response. In jobs, hooks and commands, and
 * after a committed transaction, bb_offload() ignores the deadline while `work` runs.
 */
static inline int bb_offload(struct bb_request *rq, const char *pool, void (*work)(void *),
                             void *arg)
{
    return rq->api->offload(rq, pool, work, arg);
}

/*
 * Like bb_offload(), and counts the call for a subject, such as the account whose password is
 * checked. `subject` is a hash of its name, not 0. All calls for a subject, from any number of
 * client addresses, may together use only the share of the pool that one client may use.
 */
static inline int bb_offload_for(struct bb_request *rq, const char *pool, uint64_t subject,
                                 void (*work)(void *), void *arg)
{
    return rq->api->offload_for(rq, pool, subject, work, arg);
}

/*
 * Returns 0 with *latency_ms if a dependency has responded within the last second, -1 if it is
 * down, or 1 if it is not configured. The host checks its dependencies several times a second on
 * separate connections, so the call never waits and adds no load.
 *
 * BB_DATABASE is also down while PostgreSQL accepts no writes. BB_SCHEMA is down until the host
 * knows that the tables match the modules. BB_HOST is down while the host stops or a loop is
 * blocked. BB_SCHEMA and BB_HOST have no latency. BB_CLOCK is down while this host's clock and
 * PostgreSQL's differ by over 30 s; *latency_ms is how far PostgreSQL's is ahead.
 */
static inline int bb_probe(struct bb_request *rq, enum bb_dependency dependency,
                           int64_t *latency_ms)
{
    return rq->api->probe(rq, dependency, latency_ms);
}

/*
 * Creates a completion, with which another thread signals that it has finished. The other thread
 * must call bb_completion_signal() even if the request no longer waits. Returns NULL if out of
 * memory.
 */
static inline struct bb_completion *bb_completion(struct bb_request *rq)
{
    return rq->api->completion(rq);
}

/* Waits for the signal. Returns 0, or -1 after timeout_ms or at the deadline. Call it only once. */
static inline int bb_completion_wait(struct bb_request *rq, struct bb_completion *completion,
                                     int64_t timeout_ms)
{
    return rq->api->completion_wait(rq, completion, timeout_ms);
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
 * Sends a command of `argc` arguments to Redis and returns the response; `lengths` may be NULL if
 * all arguments are NUL-terminated. Returns NULL if Redis is down, too slow (redis.timeout),
 * refuses writes, or responds with an error. Continue without Redis then: no failure is recorded
 * for bb_failed().
 */
static inline const struct bb_redis_reply *bb_redis(struct bb_request *rq, int argc,
                                                    const char *const *argv, const size_t *lengths)
{
    return rq->api->redis(rq, argc, argv, lengths);
}

#endif
