#include "core/main/stall_answer.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lib/text.h"

/*
 * LOOK_MS limits all clients together: silent clients must not keep this thread from checking the
 * loops.
 */
enum { CLIENT_MS = 200, LOOK_MS = 500, HEAD_BYTES = 8192, PER_LOOK = 64 };

/*
 * Reads the head, so that closing the connection does not cut off the answer; at most until
 * `until`.
 */
static void read_head(int fd, int64_t until)
{
    char head[HEAD_BYTES + 1];
    size_t length = 0;
    int64_t own = clock_mono_ms() + CLIENT_MS;

    until = own < until ? own : until;

    while (length < HEAD_BYTES) {
        int64_t left = until - clock_mono_ms();
        struct pollfd one = {.fd = fd, .events = POLLIN};

        if (left <= 0 || poll(&one, 1, (int)left) <= 0)
            return;
        ssize_t got = recv(fd, head + length, HEAD_BYTES - length, MSG_DONTWAIT);

        if (got <= 0)
            return;
        length += (size_t)got;
        head[length] = '\0';
        if (strstr(head, "\r\n\r\n"))
            return;
    }
}

/* Escapes a text for a JSON string; cuts it if it does not fit. This thread allocates no memory. */
static void escape(const char *text, char *out, size_t size)
{
    size_t length = strlen(text), used = 0, bytes;

    for (; length && used + 5 < size; text += bytes, length -= bytes) {
        int32_t c = text_code_point(text, length, &bytes);

        if (c < ' ' || c == 0x7f) { /* control characters, and bytes that are not UTF-8 */
            out[used++] = '?';
            continue;
        }
        if (c == '"' || c == '\\')
            out[used++] = '\\';
        memcpy(out + used, text, bytes);
        used += bytes;
    }
    out[used] = '\0';
}

static void answer(int fd, const char *reason, int64_t until)
{
    char body[768], text[1280], id[TEXT_UUID_SIZE], message[512];

    escape(reason, message, sizeof message);
    text_uuid7(id);
    snprintf(body, sizeof body,
             "{\"statusCode\":503,\"message\":\"%s\",\"error\":\"Service Unavailable\","
             "\"requestId\":\"%s\"}",
             message, id);
    int length = snprintf(
        text, sizeof text,
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        "X-Request-Id: %s\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
        id, strlen(body), body);

    read_head(fd, until);
    (void)send(fd, text, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
    close(fd);
}

void stall_answer(const struct listeners *listeners, int ms, const char *reason)
{
    struct pollfd fds[LISTENERS_MAX];

    for (size_t i = 0; i < listeners->count; i++)
        fds[i] = (struct pollfd){.fd = listeners->fds[i], .events = POLLIN};
    if (poll(fds, (nfds_t)listeners->count, ms) <= 0)
        return;
    int64_t until = clock_mono_ms() + LOOK_MS;

    for (int taken = 0; taken < PER_LOOK && clock_mono_ms() < until; taken++) {
        int fd = -1;

        for (size_t i = 0; i < listeners->count && fd < 0; i++)
            fd = accept4(listeners->fds[i], NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            return;
        answer(fd, reason, until);
    }
}
