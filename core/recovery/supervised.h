/*
 * A worker's end of the channel to its supervisor (supervisor.h). Without a supervisor all of it
 * does nothing.
 */
#ifndef CORE_SUPERVISED_H
#define CORE_SUPERVISED_H

#include "core/recovery/history.h"

/* Hears what the supervisor keeps and remembers. Once, before threads. */
void supervised_begin(void);

/* Whether there is a supervisor. Any thread. */
bool supervised(void);

/* What the service manager is to hear. Any thread. */
void supervised_tell(const char *text);

/*
 * The listening sockets that the supervisor has kept under this key; how many. They are the
 * caller's then. At most 8.
 */
size_t supervised_take(const char *key, int *fds);

/*
 * Those under other keys that are the same up to the first colon, and end so, listen no more: the
 * settings have changed since. Whether there were any.
 */
bool supervised_shut(const char *key, const char *end);

/*
 * Has the supervisor keep them for the next worker, in place of whatever it keeps under keys that
 * are the same up to the first colon.
 */
void supervised_keep(const char *key, const int *fds, size_t count);

/* This process is about to end. Async-signal-safe. */
void supervised_crashed(const struct crash_note *note);

/* A reload has brought the modules back that were left out. */
void supervised_forgive(void);

/* How the supervisor's own lines are to look. */
void supervised_log(bool json);

/* What it remembers; without a supervisor nothing. */
const struct crash_history *supervised_history(void);

#endif
