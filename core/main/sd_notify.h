/*
 * Notifies the service manager of the state of the host, with sd_notify(3) datagrams to the socket
 * named by $NOTIFY_SOCKET. If that variable is not set, nothing is sent; failures are ignored. The
 * supervisor and the server process send them, so a unit of systemd needs NotifyAccess=all. Any
 * thread. Never waits.
 */
#ifndef CORE_SD_NOTIFY_H
#define CORE_SD_NOTIFY_H

void sd_notify(const char *text);

/*
 * Reports that the host is ready. Call after the start, and after each reload, even if it failed.
 */
void sd_notify_ready(void);

/* Reports that a reload begins; sd_notify_ready() reports its end. */
void sd_notify_reloading(void);

/* Reports that the host has begun to stop. */
void sd_notify_stopping(void);

#endif
