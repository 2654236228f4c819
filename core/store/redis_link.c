#include "core/store/redis_link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/lib/redis_url.h"
#include "core/lib/text.h"

enum { READ_BYTES = 16384, FIRST_ROOM = 4096, OUT_KEPT = 65536 };

/* ---- bytes ---- */

/* Returns the number of bytes, 0: the connection was closed, or -1 with errno. */
static ssize_t link_read(struct redis_link *link, char *bytes, size_t size)
{
    if (!link->tls)
        return recv(link->fd, bytes, size, 0);
    ERR_clear_error();
    errno = 0;
    int got = SSL_read(link->tls, bytes, (int)size);

    if (got > 0)
        return got;
    switch (SSL_get_error(link->tls, got)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        errno = errno ? errno : EPROTO;
        return -1;
    }
}

static ssize_t link_write(struct redis_link *link, const char *bytes, size_t size)
{
    if (!link->tls)
        return send(link->fd, bytes, size, MSG_NOSIGNAL);
    ERR_clear_error();
    errno = 0;
    int sent = SSL_write(link->tls, bytes, (int)(size < READ_BYTES ? size : READ_BYTES));

    if (sent > 0)
        return sent;
    int error = SSL_get_error(link->tls, sent);

    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
        errno = EAGAIN;
    else
        errno = errno ? errno : EPROTO;
    return -1;
}

int redis_link_append(struct redis_link *link, int argc, const char *const *argv,
                      const size_t *lengths)
{
    char *command = NULL;
    long long length =
        redisFormatCommandArgv(&command, argc, (const char **)(uintptr_t)argv, lengths);
    size_t room = link->out_room ? link->out_room : FIRST_ROOM;

    if (length < 0)
        return -1;
    while (room < link->out_length + (size_t)length)
        room *= 2;
    char *out = room > link->out_room ? realloc(link->out, room) : link->out;

    if (out) {
        link->out = out;
        link->out_room = room;
        memcpy(out + link->out_length, command, (size_t)length);
        link->out_length += (size_t)length;
    }
    redisFreeCommand(command);
    return out ? 0 : -1;
}

int redis_link_send(struct redis_link *link)
{
    size_t sent = 0;

    while (sent < link->out_length) {
        ssize_t count = link_write(link, link->out + sent, link->out_length - sent);

        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno != EAGAIN)
            return -1;
        if (count < 0)
            break;
        sent += (size_t)count;
    }
    link->out_length -= sent;
    if (link->out_length) {
        memmove(link->out, link->out + sent, link->out_length);
    } else if (link->out_room > OUT_KEPT) {
        free(link->out);
        link->out = NULL;
        link->out_room = 0;
    }
    return link->out_length > 0;
}

int redis_link_receive(struct redis_link *link)
{
    char bytes[READ_BYTES];

    do {
        ssize_t count = link_read(link, bytes, sizeof bytes);

        if (count < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        if (!count)
            errno = ECONNRESET;
        if (!count || redisReaderFeed(link->reader, bytes, (size_t)count) != REDIS_OK)
            return -1;
    } while (link->tls && SSL_pending(link->tls));
    return 0;
}

/* ---- opening ---- */

/* Sends a command and waits for its reply. NULL: there was none, `problem` has the reason. */
static redisReply *link_call(struct redis_link *link, const char *const *argv,
                             char problem[DIAL_PROBLEM])
{
    char bytes[READ_BYTES];
    void *reply = NULL;
    int argc = 0;
    int64_t until_ms = clock_mono_ms() + link->timeout_ms;

    while (argv[argc])
        argc++;
    errno = ENOMEM;
    bool failed = redis_link_append(link, argc, argv, NULL) || redis_link_send(link);

    while (!failed && !reply) {
        ssize_t count = link_read(link, bytes, sizeof bytes);

        if (count < 0 && errno == EINTR)
            continue;
        if (!count)
            errno = ECONNRESET;
        failed = count <= 0 || redisReaderFeed(link->reader, bytes, (size_t)count) != REDIS_OK ||
                 redisReaderGetReply(link->reader, &reply) != REDIS_OK;
        if (!failed && !reply && clock_mono_ms() > until_ms) { /* it sends a few bytes at a time */
            errno = EAGAIN;
            failed = true;
        }
    }
    if (failed && link->reader->err)
        snprintf(problem, DIAL_PROBLEM, "invalid reply: %s", link->reader->errstr);
    else if (failed)
        snprintf(problem, DIAL_PROBLEM, "%s", // NOLINT: glibc's strerror() has no race
                 errno == EAGAIN ? "no response within the time limit" : strerror(errno));
    return reply;
}

/* Sends a command that must succeed. Returns 0, or -1 with the reason in `problem`. */
static int link_must(struct redis_link *link, const char *const *argv, char problem[DIAL_PROBLEM])
{
    redisReply *reply = link_call(link, argv, problem);

    if (!reply)
        return -1;
    int status = reply->type == REDIS_REPLY_ERROR ? -1 : 0;

    if (status) /* without the arguments that some servers quote in an error: the password */
        snprintf(problem, DIAL_PROBLEM, "%s: %.*s", argv[0], (int)strcspn(reply->str, "\"'`,"),
                 reply->str);
    freeReplyObject(reply);
    return status;
}

/* Verifies the server's certificate and name, or its IP address. */
static int link_begin_tls(struct redis_link *link, const char *host, const char *authorities,
                          char problem[DIAL_PROBLEM])
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    unsigned char address[sizeof(struct in6_addr)];
    bool is_address =
        inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1;

    ERR_clear_error();
    bool good = context && SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) &&
                (*authorities ? SSL_CTX_load_verify_locations(context, authorities, NULL)
                              : SSL_CTX_set_default_verify_paths(context));

    if (good) {
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_mode(context,
                         SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        link->tls = SSL_new(context);
        good = link->tls && SSL_set_fd(link->tls, link->fd);
    }
    if (good)
        good = is_address
                   ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(link->tls), host)
                   : SSL_set1_host(link->tls, host) && SSL_set_tlsext_host_name(link->tls, host);
    good = good && SSL_connect(link->tls) == 1;
    if (!good) {
        long verified = link->tls ? SSL_get_verify_result(link->tls) : X509_V_OK;
        unsigned long error = ERR_get_error();

        snprintf(problem, DIAL_PROBLEM, "TLS: %s",
                 verified != X509_V_OK ? X509_verify_cert_error_string(verified)
                 : error               ? ERR_reason_error_string(error)
                                       : "the handshake failed");
    }
    SSL_CTX_free(context);
    return good ? 0 : -1;
}

/* Connects to the first address that works. Returns the descriptor, or -1 with errno. */
static int link_connect(const struct addrinfo *at, int64_t timeout_ms)
{
    const struct timeval limit = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    int fd = -1, error = EADDRNOTAVAIL, one = 1;

    for (; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        /* the first limit applies to connect(), too */
        if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) &&
            !setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) &&
            !connect(fd, at->ai_addr, at->ai_addrlen))
            break;
        error = errno == EINPROGRESS ? ETIMEDOUT : errno;
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    if (fd >= 0 && at->ai_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    errno = error;
    return fd;
}

/* Returns a link on which reading and writing block, or NULL. `server` NULL: the URL's path. */
static struct redis_link *link_new(const struct redis_url *url, const struct redis_server *server,
                                   const struct redis_link_options *options,
                                   char problem[DIAL_PROBLEM])
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct redis_link *link = calloc(1, sizeof *link);
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct addrinfo local = {
        .ai_family = AF_UNIX, .ai_addr = (struct sockaddr *)&path, .ai_addrlen = sizeof path};
    struct addrinfo *found = NULL;
    int unknown = 0;

    snprintf(problem, DIAL_PROBLEM, "out of memory");
    if (!link)
        return NULL;
    link->timeout_ms = options->timeout_ms;
    link->reader = redisReaderCreate();
    if (server)
        unknown = getaddrinfo(server->host, server->port, &hints, &found);
    else if (strlen(url->path) < sizeof path.sun_path)
        memcpy(path.sun_path, url->path, strlen(url->path) + 1);
    link->fd = link_connect(server ? found : *path.sun_path ? &local : NULL, options->timeout_ms);
    int error = errno;

    if (found)
        freeaddrinfo(found);
    if (link->fd < 0)
        snprintf(problem, DIAL_PROBLEM, "%s", // NOLINT: glibc's strerror() has no race
                 unknown ? gai_strerror(unknown) : strerror(error));
    /* otherwise hiredis frees a large buffer, and asserts that it can allocate another */
    if (link->reader)
        link->reader->maxbuf = 0;
    if (link->reader && link->fd >= 0 &&
        (!url->tls || !server ||
         !link_begin_tls(link, server->host, options->authorities, problem)))
        return link;
    redis_link_close(link);
    return NULL;
}

/* Authenticates. A Sentinel without a password refuses this and is asked nevertheless. */
static int link_authenticate(struct redis_link *link, const struct redis_url *url, bool sentinel,
                             char problem[DIAL_PROBLEM])
{
    const char *both[] = {"AUTH", url->user, url->password, NULL};
    const char *one[] = {"AUTH", url->password, NULL};

    if (!url->password)
        return 0;
    return link_must(link, url->user ? both : one, problem) && !sentinel ? -1 : 0;
}

/* Prepares a link to the server itself: checks that it is the master if Sentinels named it. */
static int link_prepare(struct redis_link *link, const struct redis_url *url,
                        char problem[DIAL_PROBLEM])
{
    char number[16];
    const char *choose[] = {"SELECT", number, NULL};
    const char *ask[] = {"ROLE", NULL};

    snprintf(number, sizeof number, "%u", url->database);
    if (link_authenticate(link, url, false, problem) ||
        (url->database && link_must(link, choose, problem)))
        return -1;
    if (!url->master)
        return 0;
    redisReply *role = link_call(link, ask, problem);

    if (!role)
        return -1;
    bool is_master = role->type == REDIS_REPLY_ARRAY && role->elements && role->element[0]->str &&
                     !strcmp(role->element[0]->str, "master");

    if (!is_master)
        snprintf(problem, DIAL_PROBLEM, "the Sentinels name a server that is not a master");
    freeReplyObject(role);
    return is_master ? 0 : -1;
}

/* Asks one Sentinel for the master. Returns 0, or -1 with the reason in `problem`. */
static int link_ask(const struct redis_url *url, const struct redis_server *sentinel,
                    const struct redis_link_options *options, struct arena *arena,
                    struct redis_server *master, char problem[DIAL_PROBLEM])
{
    const char *ask[] = {"SENTINEL", "get-master-addr-by-name", url->master, NULL};
    struct redis_link *link = link_new(url, sentinel, options, problem);
    redisReply *reply = NULL;

    if (link && !link_authenticate(link, url, true, problem))
        reply = link_call(link, ask, problem);
    redis_link_close(link);
    if (!reply)
        return -1;
    *master = (struct redis_server){0};
    if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply->element[0]->str &&
        reply->element[1]->str) {
        master->host = arena_text(arena, reply->element[0]->str, (size_t)reply->element[0]->len);
        master->port = arena_text(arena, reply->element[1]->str, (size_t)reply->element[1]->len);
    } else {
        snprintf(problem, DIAL_PROBLEM, "a Sentinel does not know the master \"%s\"", url->master);
    }
    freeReplyObject(reply);
    return master->host && master->port ? 0 : -1;
}

/* Opens a link to a server; `server` NULL: the URL's path. */
static struct redis_link *link_to(const struct redis_url *url, const struct redis_server *server,
                                  const struct redis_link_options *options,
                                  char problem[DIAL_PROBLEM])
{
    struct redis_link *link = link_new(url, server, options, problem);

    if (!link || !link_prepare(link, url, problem))
        return link;
    redis_link_close(link);
    return NULL;
}

struct redis_link *redis_link_open(const struct redis_link_options *options,
                                   char problem[DIAL_PROBLEM])
{
    struct arena *arena = arena_new();
    struct redis_link *link = NULL;
    struct redis_server master;
    struct redis_url url;

    snprintf(problem, DIAL_PROBLEM, "out of memory");
    if (arena && !redis_url_parse(options->url, arena, &url)) {
        for (size_t i = 0; !link && url.master && i < url.count; i++) {
            if (!link_ask(&url, &url.servers[i], options, arena, &master, problem))
                link = link_to(&url, &master, options, problem);
        }
        if (!url.master)
            link = link_to(&url, url.path ? NULL : &url.servers[0], options, problem);
    }
    if (arena)
        arena_free(arena);
    if (link && fcntl(link->fd, F_SETFL, O_NONBLOCK)) {
        redis_link_close(link);
        link = NULL;
    }
    return link;
}

void redis_link_close(struct redis_link *link)
{
    if (!link)
        return;
    SSL_free(link->tls);
    if (link->fd >= 0)
        close(link->fd);
    if (link->reader)
        redisReaderFree(link->reader);
    free(link->out);
    free(link);
}
