/*
 * The datagrams of sd_notify(3) to the service manager, at the socket that $NOTIFY_SOCKET names.
 * Without that variable nothing is sent. Any thread. Never waits.
 */
#ifndef CORE_SERVICE_MANAGER_H
#define CORE_SERVICE_MANAGER_H

void service_manager_tell(const char *text);

#endif
