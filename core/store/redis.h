/*
 * Redis in a loop: one connection that never blocks. hiredis formats commands and parses replies;
 * busbar connects, reads and writes, because hiredis 0.14 has no TLS and ends the process if memory
 * runs out. Redis contains shared, small data that may be lost; callers must work without a
 * response. Any error or timeout closes the connection, so that a late response is never read as
 * the response to another command.
 */
#ifndef CORE_REDIS_H
#define CORE_REDIS_H

#include "core/lib/loop.h"
#include "core/module/request.h"

/* Begins to connect, according to the settings `redis`. Returns NULL if memory ran out. */
struct redis *redis_new(struct loop *loop);
void redis_free(struct redis *redis);

/* Returns the latency of the last probe, a SET; -1 if Redis is down or refused it. Any thread. */
int64_t redis_latency_ms(const struct redis *redis);

#endif
