/*
 * The control socket, through which `busbar reload` and `busbar status` reach the running host. It
 * has the mode 0600, so only the host's user (and root) can connect to it. The host replaces a
 * socket that remained after a crash. If another host responds on the socket, this host does not
 * replace it, and logs that it has no control socket. SIGHUP reloads even without the socket.
 *
 * A client sends one line ("reload", "status", "status --json", "run-job NAME"). The response is a
 * line with the exit status for the client, then text for people up to the end of the stream.
 *
 * The path is $BUSBAR_CONTROL, or else the setting control.socket. A client must find the socket
 * even if the settings file is invalid. In that case it uses the setting's default.
 */
#ifndef CORE_CONTROL_H
#define CORE_CONTROL_H

#include "core/module/engine.h"

#define CONTROL_DONE "0\n"
#define CONTROL_FAILED "1\n"

struct control;

/* Creates the socket and the thread that serves it. NULL if disabled, or after a logged error. */
struct control *control_new(struct engine *engine);

/* Ends the thread, and removes the socket. NULL is allowed. */
void control_free(struct control *control);

/* Returns a connection to the socket at this path; -1 with errno. `flags`: SOCK_NONBLOCK or 0. */
int control_connect(const char *path, int flags);

/* Reads until EOF, until `text` is full or contains `end`, or until `until_ms`. Any thread. */
void control_read(int fd, char *text, size_t size, const char *end, int64_t until_ms);

/* Sends the text (NULL: out of memory) to a client and closes `fd`. Any thread. */
void control_answer(int fd, const char *text);

/*
 * Returns the socket's path: $BUSBAR_CONTROL, or else the setting, or the default if `settings` is
 * NULL. The caller frees it with free(). NULL: the socket is disabled, or no memory.
 */
char *control_path(const struct settings *settings);

#endif
