/*
 * The worker's end of the channel to its supervisor (supervisor.h). Without a supervisor these
 * functions have no effect.
 */
#ifndef CORE_SUPERVISED_H
#define CORE_SUPERVISED_H

#include "core/lib/history.h"

/* Receives the kept descriptors and the history. Call once, before threads are created. */
void supervised_begin(void);

/* Whether there is a supervisor. Any thread. */
bool supervised(void);

/* Sends a message for the service manager. Any thread. */
void supervised_tell(const char *text);

/*
 * Takes the listening sockets that the supervisor has kept under this key; at most 8. Returns their
 * number. The caller owns them.
 */
size_t supervised_take(const char *key, int *fds);

/*
 * Closes the kept sockets under other keys that are equal up to the first colon and end with `end`,
 * because the settings have changed. Returns whether there were any.
 */
bool supervised_shut(const char *key, const char *end);

/*
 * Makes the supervisor keep the descriptors for the next worker, and drop those under keys that are
 * equal up to the first colon.
 */
void supervised_keep(const char *key, const int *fds, size_t count);

/* This process is about to end. Async-signal-safe. */
void supervised_crashed(const struct crash_note *note);

/* A reload has enabled the disabled modules again. */
void supervised_forgive(void);

/* Sets the log format of the supervisor. */
void supervised_log(bool json);

/* Returns the supervisor's history; empty without a supervisor. */
const struct crash_history *supervised_history(void);

#endif
