#ifndef BUSBAR_WAIT_H
#define BUSBAR_WAIT_H 
#include <busbar/request.h>
static inline int bb_offload(struct bb_request *rq, const char *pool, void (*work)(void *),
                             void *arg)
{
    return rq->api->offload(rq, pool, work, arg);
}
static inline int bb_offload_for(struct bb_request *rq, const char *pool, uint64_t subject,
                                 void (*work)(void *), void *arg)
{
    return rq->api->offload_for(rq, pool, subject, work, arg);
}
static inline int bb_probe(struct bb_request *rq, enum bb_dependency dependency,
                           int64_t *latency_ms)
{
    return rq->api->probe(rq, dependency, latency_ms);
}
static inline struct bb_completion *bb_completion(struct bb_request *rq)
{
    return rq->api->completion(rq);
}
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
static inline const struct bb_redis_reply *bb_redis(struct bb_request *rq, int argc,
                                                    const char *const *argv, const size_t *lengths)
{
    return rq->api->redis(rq, argc, argv, lengths);
}
#endif
