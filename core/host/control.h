/*
 * The control socket: where `busbar reload` and `busbar status` meet the running host. A unix
 * socket that only the host's user (and root) can connect to: mode 0600, made under another name
 * and renamed, so that it is never there with another mode. One that nobody listens on any more (a
 * crash) is replaced; where another host answers, that one keeps it and this one goes without,
 * which is logged. Without it SIGHUP reloads as well.
 *
 * A client sends one line ("reload", "status", "status --json") and reads to the end: a line with
 * its exit status, then text for people.
 *
 * The path: $BUSBAR_CONTROL, else the setting control.socket. A client must find it while the file
 * is broken: then it takes the setting's default.
 */
#ifndef CORE_CONTROL_H
#define CORE_CONTROL_H

#include "core/engine/engine.h"

#define CONTROL_DONE "0\n"
#define CONTROL_FAILED "1\n"

struct control;

/* A thread of its own; NULL where there is to be none or it cannot be made (logged). */
struct control *control_new(struct engine *engine);

/* Removes the socket. NULL is fine. */
void control_free(struct control *control);

/* Sends the text (NULL: there was no memory for it) to a client and closes `fd`. Any thread. */
void control_answer(int fd, const char *text);

/* The socket's path by these settings, or by the default where they are NULL; NULL: none, or no
 * memory. Given: free() it. */
char *control_path(const struct settings *settings);

/* What `busbar status`, or with `json` `busbar status --json`, prints, as control_answer() takes
 * it; given, NULL: no memory. (status.c) */
char *status_text(struct engine *engine, bool json);

#endif
