/*
 * Redis in a loop: one connection that never blocks. hiredis writes and reads on it; it does not
 * make it, and its asynchronous interface is not used, for both end the process when they get no
 * memory (0.14). Redis holds what is shared, small and may be lost; whoever asks must do without an
 * answer. Any error, and any answer that takes longer than the time-out, drops the connection, so
 * that a late reply can never meet another command.
 */
#ifndef CORE_REDIS_H
#define CORE_REDIS_H

#include "core/loop/loop.h"
#include "core/request/request.h"

struct redis_settings {
    const char *url; /* "unix:/path", "host:port", or "" for none */
    int64_t timeout_ms;
    struct resolver *resolver; /* of the url's host */
};

struct redis *redis_new(struct loop *loop, const struct redis_settings *settings);
void redis_free(struct redis *redis);

/*
 * redis_socket.c: begins to connect. The descriptor, the caller's, which is writable once the
 * outcome is known; -1 with errno, which is EALREADY while the host's name is being looked up. Of
 * several addresses of a host each has its turn.
 */
int redis_socket(const struct redis_settings *settings, unsigned turn);

/* bb_redis() */
const struct bb_redis_reply *api_redis(struct bb_request *rq, int argc, const char *const *argv,
                                       const size_t *lengths);

/* Latency of the last probe, a write; -1 while Redis does not take it. Loop's thread. */
int64_t redis_latency_ms(const struct redis *redis);

#endif
