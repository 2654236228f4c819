/* Parses requests. Bodies must have a Content-Length, as all bodies sent by busbar have. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "receiver.h"

#define ROOM 16384

static void reserve(struct wire *wire)
{
    if (wire->room - wire->length > ROOM / 2)
        return;
    wire->room = wire->room ? 2 * wire->room : ROOM;
    wire->bytes = realloc(wire->bytes, wire->room + 1);
    if (!wire->bytes)
        abort();
}

/* Returns the value of a header, or NULL. The head must end in a NUL. */
static const char *header(const char *head, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = strstr(head, "\r\n"); at; at = strstr(at + 2, "\r\n"))
        if (!strncasecmp(at + 2, name, length) && at[2 + length] == ':')
            return at + 3 + length + strspn(at + 3 + length, " ");
    return NULL;
}

static void copy(char *out, size_t room, const char *from, const char *end)
{
    size_t length = strcspn(from, end);

    length = length < room ? length : room - 1;
    memcpy(out, from, length);
    out[length] = '\0';
}

static bool read_head(struct wire *wire)
{
    wire->bytes[wire->length] = '\0';
    char *end = strstr(wire->bytes, "\r\n\r\n");

    if (!end)
        return false;
    *end = '\0';
    const char *length = header(wire->bytes, "Content-Length");
    const char *id = header(wire->bytes, "webhook-id");
    const char *space = strchr(wire->bytes, ' ');

    copy(wire->method, sizeof(wire->method), wire->bytes, " ");
    copy(wire->path, sizeof(wire->path), space ? space + 1 : "/", " ");
    copy(wire->id, sizeof(wire->id), id ? id : "", "\r");
    wire->body_length = length ? strtoul(length, NULL, 10) : 0;
    wire->head = (size_t)(end - wire->bytes) + 4;
    return true;
}

static bool whole(struct wire *wire)
{
    return (wire->head || (wire->length && read_head(wire))) &&
           wire->length >= wire->head + wire->body_length;
}

static ssize_t receive(const struct wire *wire, int fd, char *bytes, size_t room)
{
    return wire->tls ? tls_recv(wire->tls, bytes, room) : recv(fd, bytes, room, 0);
}

enum wire_state wire_read(struct wire *wire, int fd)
{
    for (;;) {
        if (whole(wire))
            return WIRE_REQUEST;
        reserve(wire);
        ssize_t got = receive(wire, fd, wire->bytes + wire->length, wire->room - wire->length);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return WIRE_MORE;
        if (got <= 0)
            return WIRE_ENDED;
        wire->length += (size_t)got;
    }
}

void wire_next(struct wire *wire)
{
    size_t used = wire->head + wire->body_length;

    memmove(wire->bytes, wire->bytes + used, wire->length - used);
    wire->length -= used;
    wire->head = 0;
}

void wire_free(struct wire *wire)
{
    free(wire->bytes);
}
