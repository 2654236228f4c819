/*
 * Inside of pg_listener.h: the channels in the tables of modules. On the listener's loop;
 * generations are held meanwhile.
 */
#ifndef CORE_PG_CHANNEL_H
#define CORE_PG_CHANNEL_H

#include "core/engine/engine.h"
#include "core/postgres/pg.h"

/* Calls every channel of that name (NULL: all of them) in all generations. */
void pg_listener_tell(struct engine *engine, const char *name, const char *payload);

/* Sends a LISTEN for each channel of all generations. 0; or -1: no memory, too many, or lost. */
int pg_listener_send_listen(struct engine *engine, PGconn *pg);

#endif
