/*
 * The listener: one connection that LISTENs on the channels of all modules, and queries PostgreSQL
 * several times a second. All live generations get the notifications, including those that drain.
 * When the response to a query arrives, all notifications sent before the query have been received:
 * this is the basis of bb_signals_fresh_ms(). After the connection was lost, every channel gets
 * NULL ("anything may have changed") before it counts as fresh again.
 *
 * The listener is also the probe for health and status: it does not use the connections of
 * requests. Once the tables exist, the query also returns the reason why the host is paused
 * (pause_note()).
 */
#ifndef CORE_PG_LISTENER_H
#define CORE_PG_LISTENER_H

#include "core/module/engine.h"
#include "core/store/pg.h"

/* Runs on the first loop. NULL: out of memory. */
struct pg_listener *pg_listener_new(struct loop *loop, const struct pg_settings *settings);
void pg_listener_free(struct pg_listener *listener);

/*
 * Listens on the channels of generations that were added. Returns when that is done, or when the
 * listener has lost its connection (bb_signals_fresh_ms() reports that, and the channels get NULL
 * later). The caller holds a reference to the engine, and is not a loop's thread; one caller at a
 * time.
 */
void pg_listener_subscribe(struct pg_listener *listener);

/* For how many milliseconds from now the received notifications are complete. Any thread. */
int64_t pg_listener_fresh_ms(void);

/*
 * For how many milliseconds PostgreSQL has not responded, measured from the first query or
 * connection attempt without a response in time; otherwise 0. A refused or closed connection does
 * not count as unresponsive. Any thread.
 */
int64_t pg_listener_silent_ms(void);

/* Latency of the last query; -1 while PostgreSQL does not respond. Any thread. */
int64_t pg_listener_latency_ms(void);

/* Why the listener is not connected: one line, or "" if it is. Any thread. */
void pg_listener_problem(char *out, size_t size);

#endif
