#include "core/lib/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
    struct cmsghdr head; /* aligns */
    char bytes[CMSG_SPACE(CHANNEL_FILES * sizeof(int))];
};

int channel_send(int channel, const void *packet, size_t size, const int *fds, size_t count)
{
    struct iovec bytes = {.iov_base = (void *)(uintptr_t)packet, .iov_len = size};
    struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};
    union control control = {.bytes = {0}};
    ssize_t sent;

    if (count) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof *fds);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);

        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(count * sizeof *fds);
        memcpy(CMSG_DATA(head), fds, count * sizeof *fds);
    }
    do
        sent = sendmsg(channel, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)size ? 0 : -1;
}

long channel_receive(int channel, void *packet, size_t size, int fds[CHANNEL_FILES], size_t *count,
                     int flags)
{
    struct iovec bytes = {.iov_base = packet, .iov_len = size};
    union control control = {.bytes = {0}};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got;

    *count = 0;
    do
        got = recvmsg(channel, &message, flags | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    const struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;

    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS) {
        *count = (head->cmsg_len - CMSG_LEN(0)) / sizeof *fds;
        memcpy(fds, CMSG_DATA(head), *count * sizeof *fds);
    }
    return got;
}
