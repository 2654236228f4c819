/*
 * The listener: one connection that LISTENs on the channels of all modules, and queries PostgreSQL
 * several times a second. When a response arrives, all notifications sent before the query have
 * been received: the basis of bb_signals_fresh_ms(). After the connection was lost, every channel
 * gets NULL ("anything may have changed") before it counts as fresh again. It is also the probe for
 * health and status, and reads the reason why the host is paused (pause_note()).
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
 * connection is lost or the loop blocked (it is done later then). The caller holds the engine, and
 * is not a loop's thread.
 */
void pg_listener_subscribe(struct pg_listener *listener);

/* For how many milliseconds from now the received notifications are complete. Any thread. */
int64_t pg_listener_fresh_ms(void);

/*
 * For how many milliseconds PostgreSQL has not responded to a query or connection attempt;
 * otherwise 0, also if it refuses or closes connections. Any thread.
 */
int64_t pg_listener_silent_ms(void);

/* Latency of the last query; -1 while PostgreSQL does not respond. Any thread. */
int64_t pg_listener_latency_ms(void);

/* Why the listener is not connected: one line, or "" if it is. Any thread. */
void pg_listener_problem(char *out, size_t size);

#endif
