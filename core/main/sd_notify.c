#include "core/main/sd_notify.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core/lib/supervised.h"

/*
 * Returns a socket that stays open, so that a host without free descriptors can still send
 * keep-alive messages. -1: no socket.
 */
static int sd_notify_own_socket(void)
{
    static atomic_int kept = -1;
    int fd = atomic_load(&kept), none = -1;

    if (fd >= 0)
        return fd;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || atomic_compare_exchange_strong(&kept, &none, fd))
        return fd;
    close(fd); /* another thread was faster */
    return none;
}

/* The service manager's address is a path, or an abstract name after @. */
void sd_notify(const char *text)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = getenv("NOTIFY_SOCKET");
    size_t length = name ? strlen(name) : 0;

    if (length < 2 || length >= sizeof address.sun_path || (*name != '/' && *name != '@'))
        return;
    memcpy(address.sun_path, name, length);
    if (*name == '@')
        address.sun_path[0] = '\0';
    int fd = sd_notify_own_socket();

    if (fd >= 0)
        (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
}

void sd_notify_ready(void)
{
    supervised_serves();
    sd_notify("READY=1");
}

/* With Type=notify-reload, the service manager identifies the reload by this time. */
void sd_notify_reloading(void)
{
    struct timespec now;
    char text[64];

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
             (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    sd_notify(text);
}

void sd_notify_stopping(void)
{
    supervised_stops();
    sd_notify("STOPPING=1");
}
