/*
 * Sends sd_notify(3) datagrams to the service manager, to the socket named by $NOTIFY_SOCKET. If
 * that variable is not set, nothing is sent. Any thread. Never waits.
 */
#ifndef CORE_SERVICE_MANAGER_H
#define CORE_SERVICE_MANAGER_H

void service_manager_tell(const char *text);

#endif
