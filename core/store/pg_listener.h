/*
 * The listener is a connection that LISTENs on the channels of all modules, and queries PostgreSQL
 * several times a second. When a response arrives, all notifications sent before the query have
 * been received; bb_signals_fresh_ms() is based on this. After a reconnect, every channel gets the
 * payload NULL (anything may have changed) before bb_signals_fresh_ms() becomes positive again. The
 * queries are also the probe for health and status, and read whether work is paused (pause_note()).
 */
#ifndef CORE_PG_LISTENER_H
#define CORE_PG_LISTENER_H

#include "core/module/engine.h"
#include "core/store/pg.h"

/* Returns a new listener, which runs on the first loop. NULL: out of memory. */
struct pg_listener *pg_listener_new(struct loop *loop);
void pg_listener_free(struct pg_listener *listener);

/*
 * Makes the listener LISTEN on the channels of new generations, and waits until PostgreSQL has
 * confirmed this. If the connection is lost or the loop is blocked, does not wait: the listener
 * sends LISTEN later. Call engine_hold() before; do not call this on a loop's thread.
 */
void pg_listener_subscribe(struct pg_listener *listener);

/* Implements bb_signals_fresh_ms(). Any thread. */
int64_t pg_listener_fresh_ms(void);

/*
 * Returns for how long, in milliseconds, PostgreSQL has not responded to queries and connection
 * attempts. Returns 0 if it responds, even by refusing or closing connections. Any thread.
 */
int64_t pg_listener_silent_ms(void);

/* Returns the latency of the last query; -1 while PostgreSQL does not respond. Any thread. */
int64_t pg_listener_latency_ms(void);

/*
 * Returns why PostgreSQL accepts no writes, according to the last response: it is a standby, its
 * transactions are read-only, or a commit has waited for a synchronous standby for three seconds.
 * NULL: it accepts writes. Any thread.
 */
const char *pg_listener_no_writes(void);

#endif
