#include "core/lib/service_manager.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Gets the manager's address: a path, or an abstract name after @. Returns its length; 0: none. */
static socklen_t manager(struct sockaddr_un *address)
{
    const char *name = getenv("NOTIFY_SOCKET");
    size_t length = name ? strlen(name) : 0;

    if (length < 2 || length >= sizeof address->sun_path || (*name != '/' && *name != '@'))
        return 0;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, length);
    if (*name == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

/*
 * Kept open from the first message on, because a host that runs out of descriptors must still send
 * keep-alive messages. -1: there is no socket.
 */
static int own_socket(void)
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

void service_manager_tell(const char *text)
{
    struct sockaddr_un address;
    socklen_t length = manager(&address);
    int fd = length ? own_socket() : -1;

    if (fd >= 0)
        (void)sendto(fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address, length);
}
