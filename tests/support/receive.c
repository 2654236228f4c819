#include "receive.h"

#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/socket.h>

#include "reference.h"
#include "secrets.h"

static unsigned hmac(const char *secret, const void *bytes, size_t length, unsigned char *out)
{
    unsigned size = 0;

    ck_assert_ptr_nonnull(
        HMAC(EVP_sha256(), secret, (int)strlen(secret), bytes, length, out, &size));
    return size;
}

char *hmac_hex(const char *secret, const void *body, size_t length)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned size = hmac(secret, body, length, digest);
    char *hex = text("%*s", (int)(2 * size), "");

    for (unsigned i = 0; i < size; i++) {
        hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    return hex;
}

char *hmac_standard(const char *secret, const char *id, const char *timestamp, const void *body,
                    size_t length)
{
    unsigned char digest[EVP_MAX_MD_SIZE], base64[2 * EVP_MAX_MD_SIZE];
    const char *head = text("%s.%s.", id, timestamp);
    char *all = kept(malloc(strlen(head) + length));

    memcpy(all, head, strlen(head));
    memcpy(all + strlen(head), body, length);
    EVP_EncodeBlock(base64, digest, (int)hmac(secret, all, strlen(head) + length, digest));
    return text("v1,%s", (char *)base64);
}

/* ---- catchers ---- */

struct visit {
    int fd;
    char *bytes; /* received but not taken */
    size_t length;
};

static bool read_more(struct visit *visit)
{
    char part[65536];
    ssize_t got = recv(visit->fd, part, sizeof part, 0);
    char *grown = got > 0 ? realloc(visit->bytes, visit->length + (size_t)got + 1) : NULL;

    if (!grown)
        return false;
    memcpy(grown + visit->length, part, (size_t)got);
    visit->bytes = grown;
    visit->length += (size_t)got;
    grown[visit->length] = '\0';
    return true;
}

static void judge(const struct caught *caught)
{
    const char *event = caught_header(caught, "X-Webhook-Event");

    if (event)
        reference_keeps_event(event, caught->head, caught->body, caught->length);
}

/* Takes one request off the connection; returns false if the connection has ended. */
static bool take(struct visit *visit, struct caught *caught)
{
    const char *end = NULL, *sized;

    while (!visit->bytes || !(end = strstr(visit->bytes, "\r\n\r\n"))) {
        if (!read_more(visit))
            return false;
    }
    size_t head = (size_t)(end - visit->bytes) + 4;

    caught->head = text("%.*s", (int)head, visit->bytes);
    sized = strcasestr(caught->head, "\r\ncontent-length:");
    caught->length = sized ? strtoul(sized + 17, NULL, 10) : 0;
    while (visit->length < head + caught->length) {
        if (!read_more(visit))
            return false;
    }
    caught->body = kept(calloc(1, caught->length + 1));
    memcpy(caught->body, visit->bytes + head, caught->length);
    visit->length -= head + caught->length;
    memmove(visit->bytes, visit->bytes + head + caught->length, visit->length + 1);
    caught->at_ms = now_ms();
    judge(caught);
    return true;
}

/* Records the request and returns the response to send. */
static const char *note(struct catcher *catcher, const struct caught *caught)
{
    const char *const *answer = catcher->answers;

    pthread_mutex_lock(&catcher->lock);
    if (catcher->count == sizeof(catcher->list) / sizeof(catcher->list[0]))
        abort();
    for (size_t i = 0; i < catcher->count && answer[1]; i++)
        answer++;
    catcher->list[catcher->count++] = *caught;
    pthread_mutex_unlock(&catcher->lock);
    return *answer;
}

static void serve(void *arg, int fd)
{
    struct catcher *catcher = arg;
    struct visit visit = {.fd = fd};
    struct caught caught;

    pthread_mutex_lock(&catcher->lock);
    catcher->connections++;
    pthread_mutex_unlock(&catcher->lock);
    while (take(&visit, &caught)) {
        const char *answer = note(catcher, &caught);
        bool cut = !strncmp(answer, ANSWER_CUT, strlen(ANSWER_CUT));

        answer += cut ? strlen(ANSWER_CUT) : 0;
        if ((*answer && send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0) || cut)
            break;
    }
    close(fd);
    free(visit.bytes);
}

struct catcher *catcher_start(const char *const *answers)
{
    static const char *const fine[] = {ANSWER_OK, NULL};
    struct catcher *catcher = kept(calloc(1, sizeof *catcher));

    catcher->answers = words_of(answers ? answers : fine);
    pthread_mutex_init(&catcher->lock, NULL);
    catcher->port = port_serve(serve, catcher);
    return catcher;
}

char *catcher_url(const struct catcher *catcher, const char *path)
{
    return text("http://127.0.0.1:%d/%s", catcher->port, path);
}

size_t catcher_count(struct catcher *catcher)
{
    pthread_mutex_lock(&catcher->lock);
    size_t count = catcher->count;

    pthread_mutex_unlock(&catcher->lock);
    return count;
}

size_t catcher_connections(struct catcher *catcher)
{
    pthread_mutex_lock(&catcher->lock);
    size_t count = catcher->connections;

    pthread_mutex_unlock(&catcher->lock);
    return count;
}

const struct caught *catcher_wait(struct catcher *catcher, size_t count, int ms)
{
    WAIT_UNTIL_MSG(catcher_count(catcher) >= count, ms, "%zu requests came, not %zu, in %d ms",
                   catcher_count(catcher), count, ms);
    return &catcher->list[count - 1];
}

char *caught_header(const struct caught *caught, const char *name)
{
    return header_in(caught->head, name);
}

/* ---- the receiver of bench/ ---- */

/* Returns a port below the range from which the system gives ports to connections, so that no
 * connection takes it before it is listened on. */
static int unused_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    bool unused = false;
    int port = 0;

    for (int tries = 0; tries < 1000 && !unused; tries++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        port = 12000 + (int)arc4random_uniform(15000); /* webhooks may use all of these */
        at.sin_port = htons((uint16_t)port);
        unused = !bind(fd, (struct sockaddr *)&at, sizeof at);
        close(fd);
    }
    ck_assert(unused);
    return port;
}

struct receiver *receiver_none(void)
{
    struct receiver *receiver = kept(calloc(1, sizeof *receiver));

    receiver->at.port = unused_port();
    return receiver;
}

static void start_with(struct receiver *receiver, const char *name, const char *tls_port,
                       const char *authority)
{
    const char *const argv[] = {
        TEST_RECEIVER, text("%d", receiver->at.port), "fast", tls_port, authority, NULL};

    receiver->pid = process_start(
        &(struct process_spec){.argv = argv, .log = harness_path(text("receiver-%s.log", name))});
    WAIT_UNTIL_MSG(http(&receiver->at, "GET", "/stats", NULL, NULL)->status == 200, 10000,
                   "no receiver listens");
}

struct receiver *receiver_start(const char *name)
{
    struct receiver *receiver = receiver_none();

    start_with(receiver, name, NULL, NULL);
    return receiver;
}

struct receiver *receiver_start_tls(const char *name, const struct tls_pair *authority)
{
    struct receiver *receiver = receiver_none();
    const char *both = harness_path(text("receiver-%s.pem", name));

    ck_assert_int_eq(system(text("cat %s %s >%s", authority->key, authority->certificate, both)),
                     0);
    receiver->tls_port = unused_port();
    start_with(receiver, name, text("%d", receiver->tls_port), both);
    return receiver;
}

char *receiver_url(const struct receiver *receiver, const char *path)
{
    return text("http://127.0.0.1:%d%s", receiver->at.port, path);
}

const json_t *receiver_ids(const struct receiver *receiver, const char *path)
{
    return ck_status(http(&receiver->at, "GET", text("/ids?%s", path), NULL, NULL), 200)->json;
}

size_t receiver_count(const struct receiver *receiver, const char *path)
{
    return json_array_size(receiver_ids(receiver, path));
}
