#include "sse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "reference.h"

static void append(char **bytes, size_t *length, size_t *room, const char *more, size_t count)
{
    if (*length + count >= *room) {
        *room = 2 * (*length + count + 1);
        *bytes = realloc(*bytes, *room);
    }
    ck_assert_ptr_nonnull(*bytes);
    memcpy(*bytes + *length, more, count);
    *length += count;
    (*bytes)[*length] = '\0';
}

static void drop(char *bytes, size_t *length, size_t count)
{
    memmove(bytes, bytes + count, *length - count + 1);
    *length -= count;
}

/* Waits for bytes; returns false if none come within `ms`, or at the end. */
static bool receive(struct sse *sse, int64_t ms)
{
    struct pollfd ready = {.fd = sse->fd, .events = POLLIN};
    char piece[65536];

    if (sse->ended || poll(&ready, 1, ms > 0 ? (int)ms : 0) <= 0)
        return false;
    ssize_t got = recv(sse->fd, piece, sizeof piece, 0);

    if (got <= 0) {
        sse->ended = true;
        return false;
    }
    append(&sse->raw, &sse->raw_length, &sse->raw_room, piece, (size_t)got);
    return true;
}

/* Moves complete chunks from raw to text. */
static void decode(struct sse *sse)
{
    char *end;

    while (sse->raw_length && (end = strstr(sse->raw, "\r\n"))) {
        size_t head = (size_t)(end - sse->raw) + 2, size = strtoul(sse->raw, NULL, 16);

        if (sse->raw_length < head + size + 2)
            return;
        sse->complete = size == 0;
        append(&sse->text, &sse->text_length, &sse->text_room, sse->raw + head, size);
        drop(sse->raw, &sse->raw_length, head + size + 2);
    }
}

struct sse *sse_open(const struct host *host, const char *token, const char *last,
                     int receive_bytes)
{
    return sse_open_at(host, "/api/chat/stream", token, last, receive_bytes);
}

struct sse *sse_open_at(const struct host *host, const char *path, const char *token,
                        const char *last, int receive_bytes)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)host->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sse *sse = kept(calloc(1, sizeof *sse));
    const char *request =
        text("GET %s HTTP/1.1\r\nHost: x\r\n"
             "Origin: https://platform.example\r\n"
             "Authorization: Bearer %s\r\n%s%s%s\r\n",
             path, token, last ? "Last-Event-ID: " : "", last ? last : "", last ? "\r\n" : "");

    sse->of_api = !strncmp(path, "/api/", strlen("/api/"));
    sse->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(sse->fd, 0);
    if (receive_bytes)
        setsockopt(sse->fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    ck_assert_msg(!connect(sse->fd, (struct sockaddr *)&to, sizeof to), "%s", strerror(errno));
    ck_assert_int_eq(send(sse->fd, request, strlen(request), 0), (ssize_t)strlen(request));
    append(&sse->raw, &sse->raw_length, &sse->raw_room, "", 0);
    append(&sse->text, &sse->text_length, &sse->text_room, "", 0);
    int64_t until = now_ms() + 10000 * PATIENCE;
    while (!strstr(sse->raw, "\r\n\r\n"))
        ck_assert_msg(receive(sse, until - now_ms()), "no complete headers: %s", sse->raw);
    size_t head = (size_t)(strstr(sse->raw, "\r\n\r\n") - sse->raw) + 4;
    sse->headers = text("%.*s", (int)head, sse->raw);
    drop(sse->raw, &sse->raw_length, head);
    sse->status = atoi(sse->headers + strlen("HTTP/1.1 "));
    reference_keeps_head("GET", path, sse->status, sse->headers);
    return sse;
}

static char *line_value(const char *block, const char *name)
{
    const char *line = block;
    size_t length = strlen(name);

    while (line && (strncmp(line, name, length) != 0 || strncmp(line + length, ": ", 2) != 0)) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    return line ? text("%.*s", (int)strcspn(line + length + 2, "\n"), line + length + 2) : NULL;
}

/* Parses a block; returns NULL if it is not an event. */
static struct sse_event *take(struct sse *sse, const char *block)
{
    struct sse_event event = {line_value(block, "event"), line_value(block, "id"),
                              line_value(block, "data"), NULL};

    sse->comments += block[0] == ':';
    sse->retries += line_value(block, "retry") != NULL;
    if (event.id)
        sse->last_id = event.id;
    if (!event.name && !event.data)
        return NULL;
    struct sse_event *kept_event = kept(malloc(sizeof event));

    *kept_event = event;
    if (!sse->of_api)
        return kept_event;
    kept_event->json = event.data ? kept(json_loads(event.data, 0, NULL)) : NULL;
    if (event.name)
        reference_keeps_event(event.name, NULL, event.data ? event.data : "",
                              event.data ? strlen(event.data) : 0);
    return kept_event;
}

struct sse_event *sse_within(struct sse *sse, int64_t ms)
{
    int64_t until = now_ms() + ms;

    for (;;) {
        char *end;

        decode(sse);
        while ((end = strstr(sse->text, "\n\n"))) {
            char *block = text("%.*s\n", (int)(end - sse->text), sse->text);
            drop(sse->text, &sse->text_length, (size_t)(end - sse->text) + 2);
            struct sse_event *event = take(sse, block);

            if (event)
                return event;
        }
        if (!receive(sse, until - now_ms()))
            return NULL;
    }
}

struct sse_event *sse_next(struct sse *sse, int ms)
{
    return sse_within(sse, (int64_t)ms * PATIENCE);
}

bool sse_ends(struct sse *sse, int ms)
{
    int64_t until = now_ms() + (int64_t)ms * PATIENCE;

    while (!sse->ended && now_ms() < until)
        sse_within(sse, until - now_ms());
    return sse->ended;
}

const char *sse_entry(const struct sse_event *event)
{
    return json_string_value(json_object_get(json_object_get(event->json, "message"), "chatEntry"));
}

void sse_close(struct sse *sse)
{
    close(sse->fd);
    sse->fd = -1;
    sse->ended = true;
}
