/*
 * Whether background work is paused: sending (webhook deliveries), jobs, and calls to other
 * servers. The database determines it (busbar_pause_reason() in core/store/schema.sql): an
 * operator paused it, or the database was restored or cloned. Until the database has been queried,
 * background work is paused. Requests are served in any case.
 *
 * Any thread.
 */
#ifndef CORE_PAUSE_H
#define CORE_PAUSE_H

#include "core/module/engine.h"

#define PAUSE_QUESTION "SELECT busbar_pause_reason()" /* one row; NULL: not paused */

enum pause_state { PAUSE_UNKNOWN, PAUSE_OFF, PAUSE_ON };

/* Records the database's result: the reason, or NULL if not paused. Logs a change. */
void pause_note(struct engine *engine, const char *reason);

/* Whether it is paused, or unknown. Always false without a database, and in a command. */
bool pause_holds(const struct engine *engine);

/* Like pause_holds(); if it is paused, sets the reason. */
bool pause_why(struct engine *engine, char *reason, size_t size);

#endif
