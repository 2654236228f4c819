/*
 * Telling the service manager how it stands: the datagrams of sd_notify(3) to the socket that
 * $NOTIFY_SOCKET names. Without that variable nothing is sent; a manager that does not listen is
 * nobody's trouble. Any thread. Never waits.
 */
#ifndef CORE_SD_NOTIFY_H
#define CORE_SD_NOTIFY_H

/* The host listens: after the start, and after a reload, whatever its outcome. */
void sd_notify_ready(void);

/* A reload begins; sd_notify_ready() ends it. */
void sd_notify_reloading(void);

/* Every loop turns; see watchdog.h. */
void sd_notify_alive(void);

/* The host has begun to stop. */
void sd_notify_stopping(void);

#endif
