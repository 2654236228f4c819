/*
 * Inside of ear.h: the channels that the modules' faces name. On the ear's loop; generations are
 * held meanwhile.
 */
#ifndef CORE_EAR_CHANNEL_H
#define CORE_EAR_CHANNEL_H

#include "core/engine/engine.h"
#include "core/postgres/pg.h"

/* Calls every channel of that name (NULL: all of them) in all generations. */
void ear_tell(struct engine *engine, const char *name, const char *payload);

/* Sends a LISTEN for each channel of all generations. 0; or -1: no memory, too many, or lost. */
int ear_send_listen(struct engine *engine, PGconn *pg);

#endif
