#include "core/main/sd_notify.h"

#include <inttypes.h>
#include <pthread.h>
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
 * The socket stays open, so that a host without free descriptors can still send keep-alive
 * messages. -1: no socket.
 */
static int socket_fd = -1;

static void sd_notify_open(void)
{
    socket_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* The service manager's address is a path, or an abstract name after @. */
void sd_notify(const char *text)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = getenv("NOTIFY_SOCKET");
    size_t length = name ? strlen(name) : 0;

    if (length < 2 || length >= sizeof address.sun_path || (*name != '/' && *name != '@'))
        return;
    memcpy(address.sun_path, name, length);
    if (*name == '@')
        address.sun_path[0] = '\0';
    pthread_once(&once, sd_notify_open);
    if (socket_fd >= 0)
        (void)sendto(socket_fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
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
