#include "http2.h"

#include <openssl/ssl.h>
#include <poll.h>

#include "harness.h"

#define STREAMS 128
#define FRAME_MAX 16384
#define PREFACE 24

enum frame_type {
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PUSH_PROMISE,
    PING,
    GOAWAY,
    WINDOW
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

struct due {
    uint32_t stream;
    const struct http2_answer *answer;
    int64_t at_ms;
};

struct session {
    struct http2 *server;
    SSL *tls;
    int fd;
    unsigned char payload[FRAME_MAX];
    struct due due[STREAMS];
    size_t due_count, open;
    bool stuck;
};

/* ---- frames ---- */

static bool put_frame(struct session *session, enum frame_type type, int flags, uint32_t stream,
                      const void *payload, size_t length)
{
    unsigned char bytes[9 + 256] = {0,
                                    (unsigned char)(length >> 8),
                                    (unsigned char)length,
                                    (unsigned char)type,
                                    (unsigned char)flags,
                                    (unsigned char)(stream >> 24),
                                    (unsigned char)(stream >> 16),
                                    (unsigned char)(stream >> 8),
                                    (unsigned char)stream};

    if (length > 256)
        abort();
    if (length)
        memcpy(bytes + 9, payload, length);
    return SSL_write(session->tls, bytes, (int)(9 + length)) == (int)(9 + length);
}

static bool get(struct session *session, void *bytes, size_t length)
{
    for (size_t at = 0; at < length;) {
        int got = SSL_read(session->tls, (char *)bytes + at, (int)(length - at));

        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

/* Writes a literal header field without indexing; its name is a text, or an index of the static
 * table. */
static size_t put_header(unsigned char *out, const char *name, int index, const char *value)
{
    size_t at = 0;

    out[at++] = (unsigned char)index; /* index below 15 */
    if (!index) {
        out[at++] = (unsigned char)strlen(name);
        memcpy(out + at, name, strlen(name));
        at += strlen(name);
    }
    out[at++] = (unsigned char)strlen(value);
    memcpy(out + at, value, strlen(value));
    return at + strlen(value);
}

static bool put_answer(struct session *session, const struct due *due)
{
    enum { STATUS = 8 };
    unsigned char block[128];
    char status[16];

    snprintf(status, sizeof status, "%d", due->answer->status);
    size_t length = put_header(block, ":status", STATUS, status);

    if (due->answer->retry_after)
        length += put_header(block + length, "retry-after", 0, due->answer->retry_after);
    session->open--;
    return put_frame(session, HEADERS, END_HEADERS | END_STREAM, due->stream, block, length);
}

/* ---- requests ---- */

static const struct http2_answer *next_answer(struct http2 *server)
{
    const struct http2_answer *answer = server->answers;

    for (size_t i = 0; i < server->requests && answer[1].wait_ms >= 0; i++)
        answer++;
    return answer;
}

static void complete(struct session *session, uint32_t stream)
{
    struct http2 *server = session->server;

    pthread_mutex_lock(&server->lock);
    const struct http2_answer *answer = next_answer(server);

    if (server->requests < sizeof(server->at_ms) / sizeof(server->at_ms[0]))
        server->at_ms[server->requests] = now_ms();
    server->requests++;
    pthread_mutex_unlock(&server->lock);
    if (answer->status && session->due_count < STREAMS)
        session->due[session->due_count++] =
            (struct due){stream, answer, now_ms() + answer->wait_ms};
}

/* The request was received, so it is counted. */
static bool is_stuck(struct session *session)
{
    struct http2 *server = session->server;

    pthread_mutex_lock(&server->lock);
    session->stuck = next_answer(server)->status == HTTP2_STUCK;
    server->requests += session->stuck;
    pthread_mutex_unlock(&server->lock);
    return session->stuck;
}

static void opened(struct session *session)
{
    struct http2 *server = session->server;

    session->open++;
    pthread_mutex_lock(&server->lock);
    if (session->open > server->most_open)
        server->most_open = session->open;
    pthread_mutex_unlock(&server->lock);
}

/* The client cancels a stream: no response is sent on it. */
static void reset(struct session *session, uint32_t stream)
{
    size_t kept = 0;

    for (size_t i = 0; i < session->due_count; i++)
        if (session->due[i].stream != stream)
            session->due[kept++] = session->due[i];
    session->due_count = kept;
    session->open--;
}

/* Returns the received bytes to the windows of the stream and of the connection. */
static bool give_window(struct session *session, uint32_t stream, size_t length)
{
    unsigned char bytes[4] = {0, 0, (unsigned char)(length >> 8), (unsigned char)length};

    return !length || (put_frame(session, WINDOW, 0, stream, bytes, 4) &&
                       put_frame(session, WINDOW, 0, 0, bytes, 4));
}

static bool take_frame(struct session *session)
{
    unsigned char head[9];

    if (!get(session, head, sizeof head))
        return false;
    size_t length = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
    uint32_t stream =
        (uint32_t)head[5] << 24 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 8 | head[8];
    int type = head[3], flags = head[4];

    if (length > FRAME_MAX || !get(session, session->payload, length))
        return false;
    if (type == SETTINGS && !(flags & ACK))
        return put_frame(session, SETTINGS, ACK, 0, NULL, 0);
    if (type == PING && !(flags & ACK))
        return put_frame(session, PING, ACK, 0, session->payload, length);
    if (type == HEADERS)
        opened(session);
    if (type == HEADERS && is_stuck(session))
        return false;
    if (type == DATA && !give_window(session, stream, length))
        return false;
    if ((type == HEADERS || type == DATA) && flags & END_STREAM)
        complete(session, stream);
    if (type == RST_STREAM)
        reset(session, stream);
    return type != GOAWAY;
}

/* ---- connections ---- */

static bool answer_due(struct session *session)
{
    size_t kept = 0;

    for (size_t i = 0; i < session->due_count; i++) {
        if (session->due[i].at_ms > now_ms())
            session->due[kept++] = session->due[i];
        else if (!put_answer(session, &session->due[i]))
            return false;
    }
    session->due_count = kept;
    return true;
}

static bool go_on(struct session *session)
{
    struct pollfd at = {.fd = session->fd, .events = POLLIN};

    if (SSL_pending(session->tls) || poll(&at, 1, 5) > 0)
        if (!take_frame(session))
            return false;
    return answer_due(session);
}

static void serve(void *arg, int fd)
{
    struct http2 *server = arg;
    struct session *session = kept(calloc(1, sizeof *session));
    char preface[PREFACE];

    session->server = server;
    session->fd = fd;
    session->tls = SSL_new(server->context);
    SSL_set_fd(session->tls, fd);
    pthread_mutex_lock(&server->lock);
    server->connections++;
    pthread_mutex_unlock(&server->lock);
    if (SSL_accept(session->tls) == 1 && get(session, preface, sizeof preface) &&
        put_frame(session, SETTINGS, 0, 0, NULL, 0))
        while (go_on(session))
            ;
    while (session->stuck)
        pause();
    SSL_free(session->tls);
    close(fd);
}

static int choose(SSL *tls, const unsigned char **out, unsigned char *length,
                  const unsigned char *in, unsigned in_length, void *arg)
{
    static const unsigned char ours[] = "\x02h2";

    (void)tls;
    (void)arg;
    return SSL_select_next_proto((unsigned char **)(uintptr_t)out, length, ours, 3, in,
                                 in_length) == OPENSSL_NPN_NEGOTIATED
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_ALERT_FATAL;
}

struct http2 *http2_start(const struct tls_pair *names, const struct http2_answer *answers)
{
    struct http2 *server = kept(calloc(1, sizeof *server));

    server->answers = answers;
    pthread_mutex_init(&server->lock, NULL);
    server->context = SSL_CTX_new(TLS_server_method());
    ck_assert_int_eq(
        SSL_CTX_use_certificate_file(server->context, names->certificate, SSL_FILETYPE_PEM), 1);
    ck_assert_int_eq(SSL_CTX_use_PrivateKey_file(server->context, names->key, SSL_FILETYPE_PEM), 1);
    SSL_CTX_set_alpn_select_cb(server->context, choose, NULL);
    server->port = port_serve(serve, server);
    return server;
}

size_t http2_now(struct http2 *server, const size_t *number)
{
    pthread_mutex_lock(&server->lock);
    size_t now = *number;

    pthread_mutex_unlock(&server->lock);
    return now;
}

void http2_wait(struct http2 *server, size_t requests, int ms)
{
    WAIT_UNTIL_MSG(http2_now(server, &server->requests) >= requests, ms,
                   "%zu requests came, not %zu, in %d ms", http2_now(server, &server->requests),
                   requests, ms);
}
