/*
 * Redis in a loop: one connection that never blocks. hiredis writes and reads on it, but does not
 * create it, and its asynchronous interface is not used, because both end the process if memory
 * runs out (0.14). Redis contains shared, small data that may be lost; callers must work without an
 * answer. Any error, and any answer that exceeds the timeout, closes the connection, so that a late
 * reply is never taken for the reply to another command.
 */
#ifndef CORE_REDIS_H
#define CORE_REDIS_H

#include "core/lib/loop.h"
#include "core/module/request.h"

struct redis_settings {
    const char *url;    /* "unix:/path", "host:port", or "": no Redis */
    int64_t timeout_ms; /* for connecting to an address, and for an answer */
};

struct redis *redis_new(struct loop *loop, const struct redis_settings *settings);
void redis_free(struct redis *redis);

API_FUNCTION(redis);

/* Latency of the last probe, a write; -1 while Redis does not accept it. Loop's thread. */
int64_t redis_latency_ms(const struct redis *redis);

#endif
