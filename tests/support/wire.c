#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>

#include "client.h"
#include "reference.h"

enum { READ_BYTES = 65536, STUCK_S = 10, SEGMENT_BYTES = 1460, EXCHANGE_MS = 5000 };

static struct sockaddr_in loopback(const char *address, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    ck_assert_int_eq(inet_pton(AF_INET, address, &to.sin_addr), 1);
    return to;
}

struct wire *wire_open_from(const struct host *host, const char *address, int receive_bytes)
{
    struct sockaddr_in from = loopback(address, 0), to = loopback("127.0.0.1", host->port);
    struct timeval stuck = {.tv_sec = STUCK_S * PATIENCE};
    const int segment = SEGMENT_BYTES;
    struct wire *wire = kept(calloc(1, sizeof *wire));

    wire->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_msg(wire->fd >= 0, "no socket: %s", strerror(errno));
    setsockopt(wire->fd, SOL_SOCKET, SO_SNDTIMEO, &stuck, sizeof stuck);
    if (receive_bytes) { /* with loopback's segments of 64 KiB the host could buffer megabytes */
        setsockopt(wire->fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
        setsockopt(wire->fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
    }
    if (strcmp(address, "127.0.0.1") != 0)
        ck_assert_int_eq(bind(wire->fd, (struct sockaddr *)&from, sizeof from), 0);
    ck_assert_msg(!connect(wire->fd, (struct sockaddr *)&to, sizeof to), "connect: %s",
                  strerror(errno));
    return wire;
}

struct wire *wire_open(const struct host *host)
{
    return wire_open_from(host, "127.0.0.1", 0);
}

int wire_stall(const struct host *host, const char *path, const char *token)
{
    struct wire *wire = wire_open_from(host, "127.0.0.1", 4096);
    struct pollfd readable = {.fd = wire->fd, .events = POLLIN};
    char head[13] = "";

    ck_assert(wire_say(wire, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path,
                       token));
    ck_assert_int_eq(poll(&readable, 1, 60000), 1);
    ck_assert_int_eq(recv(wire->fd, head, 12, MSG_WAITALL), 12);
    ck_assert_str_eq(head, "HTTP/1.1 200");
    return wire->fd;
}

void wire_close(struct wire *wire, bool hard)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    if (hard)
        setsockopt(wire->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(wire->fd);
    free(wire->bytes);
    wire->bytes = NULL;
    wire->fd = -1;
}

bool wire_send(struct wire *wire, const void *bytes, size_t length)
{
    const char *at = bytes;

    while (length) {
        ssize_t sent = send(wire->fd, at, length, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        at += sent;
        length -= (size_t)sent;
    }
    return true;
}

bool wire_say(struct wire *wire, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const char *said = text_of(format, args);

    va_end(args);
    return wire_send(wire, said, strlen(said));
}

/* Reads available bytes, waiting for them until `end`. Returns false if none can come any more. */
static bool receive(struct wire *wire, int64_t end)
{
    struct pollfd readable = {.fd = wire->fd, .events = POLLIN};
    int64_t left = end - now_ms();

    if (wire->ended || poll(&readable, 1, left > 0 ? (int)left : 0) <= 0)
        return false;
    if (wire->room - wire->length <= READ_BYTES) {
        wire->room = wire->room * 2 + 2 * READ_BYTES;
        wire->bytes = realloc(wire->bytes, wire->room);
        ck_assert_ptr_nonnull(wire->bytes);
    }
    ssize_t got = recv(wire->fd, wire->bytes + wire->length, READ_BYTES, 0);
    if (got <= 0) {
        wire->ended = true;
        wire->reset = got < 0;
        return false;
    }
    wire->length += (size_t)got;
    wire->bytes[wire->length] = '\0';
    return true;
}

/* Waits until that many bytes after `taken` are there. */
static bool need(struct wire *wire, size_t count, int64_t end)
{
    while (wire->length - wire->taken < count) {
        if (!receive(wire, end))
            return false;
    }
    return true;
}

/* Returns the length of the headers with the empty line; 0: they do not come. */
static size_t header_block(struct wire *wire, int64_t end)
{
    for (size_t seen = 4;; seen = wire->length - wire->taken + 1) {
        if (!need(wire, seen, end))
            return 0;
        const char *start = wire->bytes + wire->taken;
        const char *stop = strstr(start, "\r\n\r\n");

        if (stop)
            return (size_t)(stop - start) + 4;
    }
}

const char *wire_header(const struct wire_answer *answer, const char *name)
{
    return header_in(answer->headers, name);
}

/* Without the request, only the form of an error can be checked. */
static void judge_error(const struct wire_answer *answer)
{
    json_t *json = json_loadb(answer->body, answer->length, JSON_DECODE_ANY, NULL);

    reference_keeps_error(&(struct reference_answer){.method = "GET",
                                                     .status = answer->status,
                                                     .headers = answer->headers,
                                                     .body = answer->body,
                                                     .length = answer->length,
                                                     .json = json});
    json_decref(json);
}

static struct wire_answer *read_one(struct wire *wire, int64_t end)
{
    size_t block = header_block(wire, end);

    if (!block)
        return NULL;
    struct wire_answer *answer = kept(calloc(1, sizeof *answer));

    answer->headers = text("%.*s", (int)block, wire->bytes + wire->taken);
    ck_assert_msg(!strncmp(answer->headers, "HTTP/1.1 ", 9) ||
                      !strncmp(answer->headers, "HTTP/1.0 ", 9),
                  "no status line: %.200s", answer->headers);
    answer->status = (int)strtol(answer->headers + 9, NULL, 10);
    wire->taken += block;
    const char *length = wire_header(answer, "Content-Length");
    bool bare = answer->status < 200 || answer->status == 204 || answer->status == 304;

    answer->length = length && !bare ? strtoul(length, NULL, 10) : 0;
    if (!need(wire, answer->length, end))
        return NULL;
    answer->body = kept(calloc(1, answer->length + 1));
    if (answer->length)
        memcpy(answer->body, wire->bytes + wire->taken, answer->length);
    wire->taken += answer->length;
    judge_error(answer);
    return answer;
}

struct wire_answer *wire_read(struct wire *wire, int ms)
{
    int64_t end = now_ms() + (int64_t)ms * PATIENCE;
    struct wire_answer *answer;

    do
        answer = read_one(wire, end);
    while (answer && answer->status < 200);
    return answer;
}

bool wire_closes(struct wire *wire, int ms)
{
    int64_t end = now_ms() + (int64_t)ms * PATIENCE;

    while (receive(wire, end))
        wire->taken = wire->length = 0;
    return wire->ended;
}

bool wire_has_more(struct wire *wire, int ms)
{
    return wire->length > wire->taken || receive(wire, now_ms() + (int64_t)ms * PATIENCE);
}

/* Uses the request's first line if it has a method and a path; other targets belong to no
 * operation. */
static void judge(const char *said, const struct wire_answer *answer)
{
    char method[16], target[4096];
    json_t *json = json_loadb(answer->body, answer->length, JSON_DECODE_ANY, NULL);

    if (sscanf(said, "%15s %4095s", method, target) == 2 && *target == '/')
        reference_keeps(&(struct reference_answer){.method = method,
                                                   .target = target,
                                                   .status = answer->status,
                                                   .headers = answer->headers,
                                                   .body = answer->body,
                                                   .length = answer->length,
                                                   .json = json});
    json_decref(json);
}

struct wire_answer *wire_read_for(struct wire *wire, const char *said, int ms)
{
    struct wire_answer *answer = wire_read(wire, ms);

    ck_assert_msg(answer != NULL, "no answer (%s) to %.200s", wire->ended ? "closed" : "silent",
                  said);
    judge(said, answer);
    return answer;
}

struct wire_answer *wire_ask(const struct host *host, const char *format, ...)
{
    struct wire *wire = wire_open(host);
    va_list args;

    va_start(args, format);
    const char *said = text_of(format, args);

    va_end(args);
    wire_send(wire, said, strlen(said));
    struct wire_answer *answer = wire_read_for(wire, said, 10000);

    wire_close(wire, false);
    return answer;
}

bool wire_is_served(const struct host *host)
{
    struct wire *wire = wire_open(host);

    wire_say(wire, "GET /api/health HTTP/1.1\r\nHost: x\r\n\r\n");
    struct wire_answer *answer = wire_read(wire, 1000);

    wire_close(wire, false);
    return answer && answer->status == 200;
}

struct wire_answer *wire_expect_error(struct wire_answer *answer, int status, const char *file,
                                      int line)
{
    ck_assert_msg(answer != NULL, "%s:%d: no answer", file, line);
    ck_assert_msg(answer->status == status, "%s:%d: status %d instead of %d: %.500s", file, line,
                  answer->status, status, answer->body);
    json_t *body = json_loads(answer->body, 0, NULL);

    ck_assert_msg(json_is_object(body), "%s:%d: the body is not an object: %.500s", file, line,
                  answer->body);
    ck_assert_int_eq(json_integer_value(json_object_get(body, "statusCode")), status);
    ck_assert(json_is_string(json_object_get(body, "message")));
    ck_assert(json_is_string(json_object_get(body, "error")));
    ck_assert_str_eq(json_string_value(json_object_get(body, "requestId")),
                     wire_header(answer, "X-Request-Id"));
    if (status == 429 || status == 503)
        ck_assert_ptr_nonnull(wire_header(answer, "Retry-After"));
    ck_assert_str_eq(wire_header(answer, "X-Content-Type-Options"), "nosniff");
    error_hides_internals(answer->headers, answer->body);
    ck_assert_str_eq(wire_header(answer, "Cache-Control"), "no-store");
    ck_assert_str_eq(wire_header(answer, "Content-Type"), "application/json; charset=utf-8");
    json_decref(body);
    return answer;
}

struct wire_answer *wire_exchange(const struct host *host, const char *sent, const char *expected)
{
    struct wire *wire = wire_open(host);
    struct wire_answer *last = NULL;
    const char *got = "", *connection = NULL;

    wire_send(wire, sent, strlen(sent));
    for (const char *at = expected; *at && *at != 'e'; at += strcspn(at, " "), at += *at == ' ') {
        last = last ? wire_read(wire, EXCHANGE_MS) : wire_read_for(wire, sent, EXCHANGE_MS);
        ck_assert_msg(last != NULL, "no response after \"%s\" for %.400s", got, sent);
        if (last->status >= 400)
            ck_wire_error(last, last->status);
        connection = wire_header(last, "Connection");
        got = text("%s%s%d%s", got, *got ? " " : "", last->status,
                   connection && !strcmp(connection, "close") ? " end" : "");
    }
    ck_assert_msg(!strcmp(got, expected), "%s instead of %s for %.400s", got, expected, sent);
    ck_assert_msg(!strstr(got, "end") || (wire_closes(wire, EXCHANGE_MS) && !wire->reset),
                  "the connection does not end after %.400s", sent);
    wire_close(wire, false);
    return last;
}
