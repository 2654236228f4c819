/*
 * The listener: one connection that LISTENs to the channels of the modules, and asks PostgreSQL for
 * a sign of life several times a second. All generations that are alive hear, so that one that
 * drains is told, too. Whatever was notified before a question was sent has been heard when its
 * answer is here: that is what bb_signals_fresh_ms() promises. When the listener has been cut off,
 * every channel hears NULL ("anything may have changed") before it counts as fresh again.
 *
 * Also the probe of health/status: it never goes through the connections of the requests. Once the
 * tables are there, the question is why the host is paused (pause.h).
 */
#ifndef CORE_PG_LISTENER_H
#define CORE_PG_LISTENER_H

#include "core/engine/engine.h"
#include "core/postgres/pg.h"

/* On the first loop. NULL: out of memory. */
struct pg_listener *pg_listener_new(struct loop *loop, const struct pg_settings *settings);
void pg_listener_free(struct pg_listener *listener);

/*
 * Listens to what generations that came meanwhile want to hear, and returns once it does, or once
 * it hears nothing at all any more (bb_signals_fresh_ms() says so then, and what is missed is made
 * up for as always). While the engine is held; not on a loop's thread, and by one at a time.
 */
void pg_listener_subscribe(struct pg_listener *listener);

/* For how long from now what was heard is complete; any thread. */
int64_t pg_listener_fresh_ms(void);

/*
 * For how long PostgreSQL has been there and has said nothing, in milliseconds since the first
 * question, or attempt to connect, that had no answer in time; else 0. A connection that was
 * refused or closed is no silence. Any thread.
 */
int64_t pg_listener_silent_ms(void);

/* Latency of the last question; -1 while PostgreSQL does not answer. Any thread. */
int64_t pg_listener_latency_ms(void);

/* Why it is not connected: one line, "" while all is well. Any thread. */
void pg_listener_problem(char *out, size_t size);

#endif
