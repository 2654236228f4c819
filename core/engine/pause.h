/*
 * Whether background work is paused: sending (deliveries of webhooks), jobs, and calls to other
 * servers. The database says so (busbar_pause_reason() in core/migrate/schema.sql): an operator
 * paused it, or it was restored or cloned. Until the database was asked, everything is paused.
 * Requests are served all the same.
 *
 * Any thread.
 */
#ifndef CORE_PAUSE_H
#define CORE_PAUSE_H

#include "core/engine/engine.h"

#define PAUSE_QUESTION "SELECT busbar_pause_reason()" /* one row; NULL: nothing is paused */

enum pause_state { PAUSE_UNKNOWN, PAUSE_OFF, PAUSE_ON };

/* Notes the database's answer: the reason, or NULL if nothing is paused. Logs a change. */
void pause_note(struct engine *engine, const char *reason);

/* Whether it is paused, or not known yet. Never without a database, nor in a command. */
bool pause_holds(const struct engine *engine);

/* The same; if it is, with the reason. */
bool pause_why(struct engine *engine, char *reason, size_t size);

#endif
