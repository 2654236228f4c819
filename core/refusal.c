/*
 * What libmicrohttpd refuses by itself, before the host sees a request: a head that is too large
 * or malformed, chunks that are none. It offers no way to word these answers, its own are HTML, and
 * for some it sends the headers twice. But it queues them by its public function, and the dynamic
 * linker lets a program define that one, as it may define malloc. So here the client gets the same
 * error as ever, straight to its socket, and libmicrohttpd is told that the answer could not be
 * queued, whereupon it closes the connection. A libmicrohttpd that was built to call itself
 * directly keeps its own answers, and nothing else changes.
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/http.h"
#include "core/meter.h"
#include "core/reply.h"
#include "core/text.h"

/* What has come and is not read would make the kernel reset the connection, answer and all. */
enum { BODY_MAX = 256, ANSWER_MAX = 768, UNREAD_MAX = 64 * 1024 };

typedef enum MHD_Result queue_function(struct MHD_Connection *, unsigned, struct MHD_Response *);

enum MHD_Result http_queue(struct MHD_Connection *mhd, unsigned status,
                           struct MHD_Response *response)
{
    static atomic_uintptr_t known;
    queue_function *queue = (queue_function *)atomic_load(&known);

    if (!queue) {
        queue = (queue_function *)(uintptr_t)dlsym(RTLD_NEXT, "MHD_queue_response");
        atomic_store(&known, (uintptr_t)queue);
    }
    return queue ? queue(mhd, status, response) : MHD_NO;
}

static const char *message_of(unsigned status)
{
    switch (status) {
    case 413:
        return "The body is too large";
    case 414:
        return "The target is too long";
    case 431:
        return "The headers are too large";
    case 505:
        return "Unsupported version of HTTP";
    default:
        return status < 500 ? "The request is malformed" : "The request cannot be served";
    }
}

/* The whole answer; its length. An id has REQUEST_ID_MAX characters at most. */
static int refusal(char text[ANSWER_MAX], unsigned status, const char *id)
{
    const char *reason = reply_reason((int)status);
    char body[BODY_MAX];
    int length = snprintf(body, sizeof body,
                          "{\"statusCode\":%u,\"message\":\"%s\",\"error\":\"%s\","
                          "\"requestId\":\"%s\"}",
                          status, message_of(status), reason, id);

    return snprintf(text, ANSWER_MAX,
                    "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Length: %d\r\n"
                    "Content-Type: application/json; charset=utf-8\r\nX-Request-Id: %s\r\n"
                    "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n\r\n%s",
                    status, reason, length, id, body);
}

/* Never waits: who does not even take so little gets nothing. */
static void say(int fd, unsigned status, const char *id)
{
    char text[ANSWER_MAX], unread[4096];
    int length = refusal(text, status, id);

    (void)send(fd, text, (size_t)length, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_WR);
    for (size_t left = UNREAD_MAX; left && recv(fd, unread, sizeof unread, MSG_DONTWAIT) > 0;)
        left -= sizeof unread;
}

/* In the place of libmicrohttpd's own, for libmicrohttpd; the host calls http_queue(). */
enum MHD_Result MHD_queue_response(struct MHD_Connection *mhd, unsigned status,
                                   struct MHD_Response *response)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *own =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = own ? own->socket_context : NULL;
    char fresh[TEXT_UUID_SIZE], *id = connection ? connection->request_id : NULL;

    (void)response;
    if (!id)
        id = fresh;
    if (id == fresh || !*id)
        text_uuid7(id);
    if (connection)
        connection->refused = status;
    if (id == fresh) /* else its exchange is counted when it ends */
        meter_request(meter_no_route(), (int)status, -1);
    if (fd)
        say(fd->connect_fd, status, id);
    return MHD_NO;
}
