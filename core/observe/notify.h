/*
 * Telling the service manager how it stands: the datagrams of sd_notify(3) to the socket that
 * $NOTIFY_SOCKET names. Without that variable nothing is sent; a manager that does not listen is
 * nobody's trouble. Any thread. Never waits.
 */
#ifndef CORE_NOTIFY_H
#define CORE_NOTIFY_H

/* The host listens: after the start, and after a reload, whatever its outcome. */
void notify_ready(void);

/* A reload begins; notify_ready() ends it. */
void notify_reloading(void);

/* Every loop turns; see watchdog.h. */
void notify_alive(void);

/* The host has begun to stop. */
void notify_stopping(void);

#endif
