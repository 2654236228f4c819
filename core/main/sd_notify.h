/*
 * Notifies the service manager of the state of the host, with sd_notify(3) datagrams to the socket
 * named by $NOTIFY_SOCKET. If that variable is not set, nothing is sent; failures are ignored. The
 * worker sends them itself, so a unit of systemd needs NotifyAccess=all. Any thread. Never waits.
 */
#ifndef CORE_SD_NOTIFY_H
#define CORE_SD_NOTIFY_H

/* Sends this text. */
void sd_notify(const char *text);

/* The host is ready: call this after the start, and after each reload, successful or not. */
void sd_notify_ready(void);

/* A reload begins; sd_notify_ready() ends it. */
void sd_notify_reloading(void);

/* The host has begun to stop. */
void sd_notify_stopping(void);

#endif
