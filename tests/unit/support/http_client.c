#include "http_client.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PIECE = 256 * 1024, SMALL = 16 * 1024 };

static struct client *clients;

static void watch(struct client *client, int fd)
{
    uint32_t events = (client->deaf ? 0 : EPOLLIN) | (client->out_length ? EPOLLOUT : 0);

    if (client->ended)
        events &= ~(uint32_t)EPOLLIN;
    loop_watch(&http_stage_loop, &client->watch, fd, events ? events : EPOLLPRI);
}

static void close_socket(struct client *client)
{
    int fd = client->watch.fd;

    if (fd < 0)
        return;
    loop_watch(&http_stage_loop, &client->watch, -1, 0);
    close(fd);
}

/* ---- sending and receiving ------------------------------------------------------------------ */

static void send_rest(struct client *client)
{
    ssize_t sent = send(client->watch.fd, client->out, client->out_length, MSG_NOSIGNAL);

    if (sent < 0 && errno != EAGAIN)
        client->out_length = 0; /* the host does not accept the rest */
    if (sent <= 0)
        return;
    client->out_length -= (size_t)sent;
    memmove(client->out, client->out + sent, client->out_length);
}

/* Returns false if there is nothing to read now. */
static bool take(struct client *client)
{
    if (client->in_room < client->in_length + PIECE + 1) {
        client->in_room = client->in_room * 2 + PIECE + 1;
        client->in = realloc(client->in, client->in_room);
        ck_assert_ptr_nonnull(client->in);
    }
    ssize_t got = recv(client->watch.fd, client->in + client->in_length, PIECE, MSG_DONTWAIT);

    client->reset = got < 0 && errno != EAGAIN;
    client->ended = !got || client->reset;
    client->in_length += got > 0 ? (size_t)got : 0;
    client->in[client->in_length] = '\0';
    return got > 0;
}

static void ready(struct watch *of, uint32_t events)
{
    struct client *client = (struct client *)(void *)of;

    if (events & EPOLLOUT)
        send_rest(client);
    while (!client->deaf && !client->ended && take(client))
        ;
    if (events & EPOLLERR && client->deaf)
        client->reset = client->ended = true;
    if (client->reset || (events & EPOLLHUP && client->ended))
        close_socket(client);
    else
        watch(client, of->fd);
}

/* ---- actions of a client --------------------------------------------------------------------- */

static struct client *make(const char *address, bool deaf)
{
    struct sockaddr_in own = {.sin_family = AF_INET}, host = own;
    struct client *client = calloc(1, sizeof *client);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = SMALL;
    socklen_t length = sizeof own;

    ck_assert_ptr_nonnull(client);
    ck_assert_int_eq(inet_pton(AF_INET, address, &own.sin_addr), 1);
    ck_assert_int_eq(inet_pton(AF_INET, "127.0.0.1", &host.sin_addr), 1);
    host.sin_port = htons((uint16_t)http_stage_port());
    if (deaf)
        ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&host, sizeof host), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&own, &length), 0);
    *client = (struct client){.watch = {.fd = -1, .ready = ready},
                              .next = clients,
                              .port = ntohs(own.sin_port),
                              .deaf = deaf};
    clients = client;
    watch(client, fd);
    return client;
}

struct client *client_new(void)
{
    return make("127.0.0.1", false);
}

struct client *client_from(const char *address)
{
    return make(address, false);
}

struct client *client_deaf(const char *address)
{
    return make(address, true);
}

void client_listen(struct client *client)
{
    client->deaf = false;
    watch(client, client->watch.fd);
}

void client_say_bytes(struct client *client, const char *bytes, size_t length)
{
    ck_assert_int_ge(client->watch.fd, 0);
    client->out = realloc(client->out, client->out_length + length);
    ck_assert_ptr_nonnull(client->out);
    memcpy(client->out + client->out_length, bytes, length);
    client->out_length += length;
    send_rest(client);
    watch(client, client->watch.fd);
}

void client_say(struct client *client, const char *text)
{
    client_say_bytes(client, text, strlen(text));
}

void client_say_many(struct client *client, char byte, size_t count)
{
    char *bytes = malloc(count);

    ck_assert_ptr_nonnull(bytes);
    memset(bytes, byte, count);
    client_say_bytes(client, bytes, count);
    free(bytes);
}

void client_spell(struct client *client, const char *text)
{
    for (; *text; text++) {
        client_say_bytes(client, text, 1);
        client_expect_read(client);
    }
}

void client_shut(struct client *client)
{
    ck_assert_uint_eq(client->out_length, 0);
    ck_assert_int_eq(shutdown(client->watch.fd, SHUT_WR), 0);
}

void client_leave(struct client *client)
{
    client->out_length = 0;
    close_socket(client);
}

void client_reset(struct client *client)
{
    struct linger at_once = {.l_onoff = 1};

    ck_assert_int_eq(setsockopt(client->watch.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once),
                     0);
    client_leave(client);
}

void clients_leave(void)
{
    while (clients) {
        struct client *client = clients;

        clients = client->next;
        client_leave(client);
        free(client->in);
        free(client->out);
        free(client);
    }
}

/* ---- bytes that a client has read ------------------------------------------------------------ */

const char *client_heard(const struct client *client)
{
    return client->in_length ? client->in : "";
}

size_t client_times(const struct client *client, const char *text)
{
    size_t times = 0;

    for (const char *at = client_heard(client); (at = strstr(at, text)); at += strlen(text))
        times++;
    return times;
}

void client_forget(struct client *client)
{
    client->in_length = 0;
}

struct connection *client_connection(const struct client *client)
{
    for (struct connection *at = LIST_FIRST(&http_stage_loop.http->connections); at;
         at = LIST_NEXT(at, link)) {
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;

        if (!getpeername(at->fd, (struct sockaddr *)&peer, &length) &&
            ntohs(peer.sin_port) == client->port)
            return at;
    }
    return NULL;
}

/* ---- conditions that the test waits for ------------------------------------------------------ */

struct expected {
    const struct client *client;
    const char *text;
    enum connection_stage stage;
};

static bool has_text(const void *of)
{
    const struct expected *expected = of;
    bool has = client_times(expected->client, expected->text) > 0;

    ck_assert_msg(has || !expected->client->ended, "\"%s\" is not in the bytes received: %s",
                  expected->text, client_heard(expected->client));
    return has;
}

void client_expect(struct client *client, const char *text)
{
    http_stage_until(has_text, &(struct expected){.client = client, .text = text});
}

static bool is_read(const void *of)
{
    const struct client *client = of;
    const struct connection *connection = client_connection(client);
    int bytes = 1;

    if (client->ended)
        return true;
    return !client->out_length && connection && !ioctl(connection->fd, FIONREAD, &bytes) && !bytes;
}

void client_expect_read(struct client *client)
{
    http_stage_until(is_read, client);
}

static bool has_ended(const void *of)
{
    return ((const struct client *)of)->ended;
}

void client_expect_end(struct client *client)
{
    http_stage_until(has_ended, client);
}

static bool is_in_stage(const void *of)
{
    const struct expected *expected = of;
    const struct connection *connection = client_connection(expected->client);

    return connection && connection->stage == expected->stage;
}

void client_expect_stage(struct client *client, enum connection_stage stage)
{
    http_stage_until(is_in_stage, &(struct expected){.client = client, .stage = stage});
}

void client_ask(struct client *client, const char *request, const char *text)
{
    client_forget(client);
    client_say(client, request);
    client_expect(client, text);
}
