/*
 * Internals of pg_listener.h: the channels in the tables of modules. On the listener's loop, with a
 * reference to each generation.
 */
#ifndef CORE_PG_CHANNEL_H
#define CORE_PG_CHANNEL_H

#include "core/module/engine.h"
#include "core/store/pg.h"

/* Notifies every channel of that name (NULL: all channels) in all generations. */
void pg_listener_tell(struct engine *engine, const char *name, const char *payload);

/*
 * Sends LISTEN for each channel of all generations. Returns 0, or -1 if memory ran out, there are
 * too many, or the connection was lost.
 */
int pg_listener_send_listen(struct engine *engine, PGconn *pg);

#endif
