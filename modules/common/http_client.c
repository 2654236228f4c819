#include "modules/common/http_client.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "config.h"

#define LIFETIME_S 600L    /* of a connection, so that a new address of the host name is used */
#define AUTHORITIES_S 600L /* how long authorities are cached */

enum {
    LATE_MS = 250,  /* how long libcurl may exceed the timeout of a request */
    CHECK_MS = 250, /* between two checks for requests that are late or abandoned */
    WAIT_MS = 60000,
    WITHOUT_MEMORY_MS = 100,
    TICK_MS = 20, /* margin for the precision of tcpi_last_data_recv */
    FIRST_ROOM = 4096,
    EVENTS = 64
};
#define NEVER INT64_MAX

struct http_client {
    struct http_client_options options;
    bool authorities_in_a_file; /* CAPATH is not used, because libcurl caches only CAINFO, a file */
    struct target_guard guard;
    CURLM *multi; /* NULL: not needed, or out of memory */
    bool broken;  /* the multi handle ran out of memory internally and must not be used any more */
    int epoll, wake_fd;
    int64_t timer_at_ms, check_at_ms;
    int64_t unused_at_ms; /* when all connections will have been idle for idle_s seconds */
    LIST_HEAD(, http_request) flying;
};

int64_t http_clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- one request ---- */

static size_t http_on_body(char *data, size_t size, size_t count, void *arg)
{
    struct http_request *request = arg;
    size_t length = size * count, room = request->room, kept = length;
    long status = 0;

    if (request->take)
        curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status == 200)
        return request->take(request->arg, data, length) ? 0 : length;
    request->body_bytes += length;
    request->too_large = request->body_bytes > request->body_max;
    if (request->too_large)
        return 0;
    if (request->bytes_max && kept > request->bytes_max - request->received)
        kept = request->bytes_max - request->received;
    size_t all = request->received + kept;

    while (room <= all) /* a NUL follows */
        room = room ? room * 2 : FIRST_ROOM;
    char *bytes = room > request->room ? realloc(request->bytes, room) : request->bytes;

    if (!bytes)
        return 0;
    request->bytes = bytes;
    request->room = room;
    memcpy(bytes + request->received, data, kept);
    bytes[all] = '\0';
    request->received = all;
    return length;
}

/* Limits the headers of a response, together with the headers of 1xx responses before it. */
static size_t http_on_head(char *data, size_t size, size_t count, void *arg)
{
    struct http_request *request = arg;
    size_t length = size * count;

    if (length >= 5 && !strncmp(data, "HTTP/", 5))
        request->head_ended = false;
    if (length > 0 && (data[0] == '\r' || data[0] == '\n')) {
        request->head_ended = true;
        if (request->headed)
            request->headed(request);
    }
    request->head_bytes += length;
    request->too_large = request->head_bytes > HTTP_HEAD_MAX;
    return request->too_large ? 0 : length;
}

bool http_is_one_of(const char *name, const char *const *list)
{
    while (*list && strcasecmp(name, *list) != 0)
        list++;
    return *list != NULL;
}

/* Called each time before libcurl sends the request. Allows one retry of idempotent methods. */
static int http_on_sending(void *arg, char *remote, char *local, int remote_port, int local_port)
{
    static const char *const idempotent[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", NULL};
    struct http_request *request = arg;

    (void)remote, (void)local, (void)remote_port, (void)local_port;
    if (!request->sendings && request->may_send && !request->may_send(request))
        return CURL_PREREQFUNC_ABORT;
    request->sendings++;
    return request->sendings == 1 ||
                   (request->sendings == 2 && http_is_one_of(request->method, idempotent))
               ? CURL_PREREQFUNC_OK
               : CURL_PREREQFUNC_ABORT;
}

#define SET(option, value) (bad = bad ? bad : curl_easy_setopt(easy, (option), (value)))

/* Sets the options that all requests of a client have. */
static CURLcode http_set_common(const struct http_client *client, CURL *easy)
{
    const struct http_client_options *options = &client->options;
    CURLcode bad = CURLE_OK;

    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_DISALLOW_USERNAME_IN_URL, 1L);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    if (*options->authorities)
        SET(CURLOPT_CAINFO, options->authorities);
    if (client->authorities_in_a_file)
        SET(CURLOPT_CAPATH, NULL);
    SET(CURLOPT_CA_CACHE_TIMEOUT, AUTHORITIES_S);
    SET(CURLOPT_HTTP_VERSION,
        (long)(options->http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1));
    SET(CURLOPT_DNS_CACHE_TIMEOUT, 10L);
    SET(CURLOPT_MAXAGE_CONN, (long)options->idle_s);
    SET(CURLOPT_MAXLIFETIME_CONN, LIFETIME_S);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_USERAGENT, "busbar/" PACKAGE_VERSION);
    SET(CURLOPT_WRITEFUNCTION, http_on_body);
    SET(CURLOPT_HEADERFUNCTION, http_on_head);
    SET(CURLOPT_PREREQFUNCTION, http_on_sending);
    if (options->rules)
        SET(CURLOPT_OPENSOCKETFUNCTION, target_open_socket);
    return bad;
}

/* Any method may have a body; POST, PUT and PATCH always have one, even if it is empty. */
int http_request_prepare(struct http_client *client, struct http_request *request)
{
    static const char *const bodied[] = {"POST", "PUT", "PATCH", NULL};
    CURL *easy = request->easy ? request->easy : curl_easy_init();
    CURLcode bad = easy ? CURLE_OK : CURLE_OUT_OF_MEMORY;

    if (easy && !request->easy)
        bad = http_set_common(client, easy);
    request->easy = easy;
    request->socket = (struct target_socket){.guard = &client->guard};
    SET(CURLOPT_OPENSOCKETDATA, &request->socket);
    SET(CURLOPT_URL, request->url);
    SET(CURLOPT_HTTPHEADER, request->headers);
    SET(CURLOPT_TIMEOUT_MS, (long)request->timeout_ms);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)request->timeout_ms);
    SET(CURLOPT_PRIVATE, request);
    SET(CURLOPT_ERRORBUFFER, request->detail);
    SET(CURLOPT_WRITEDATA, request);
    SET(CURLOPT_HEADERDATA, request);
    SET(CURLOPT_PREREQDATA, request);
    if (request->file) { /* libcurl uses fread(), and rewinds the file before it sends it again */
        SET(CURLOPT_UPLOAD, 1L);
        SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)request->length);
        SET(CURLOPT_READDATA, request->file);
    } else if (request->body || http_is_one_of(request->method, bodied)) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->length);
        SET(CURLOPT_POSTFIELDS, request->body ? request->body : "");
    }
    if (strcmp(request->method, "HEAD") != 0)
        SET(CURLOPT_CUSTOMREQUEST, request->method);
    else
        SET(CURLOPT_NOBODY, 1L);
    return bad ? -1 : 0;
}
#undef SET

void http_request_close(struct http_request *request)
{
    curl_easy_cleanup(request->easy);
    request->easy = NULL;
}

/*
 * Returns whether the server caused a failure. A failed name lookup is not the server's fault: it
 * may mean that the name does not exist, or that the name server does not respond.
 */
static bool http_is_servers_fault(const struct http_request *request, CURLcode code)
{
    curl_off_t resolved_us = 0;
    long error = 0;

    if (request->sendings)
        return code != CURLE_OUT_OF_MEMORY || request->too_large;
    if (!request->easy || request->socket.refused)
        return false;
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        curl_easy_getinfo(request->easy, CURLINFO_NAMELOOKUP_TIME_T, &resolved_us);
        return resolved_us > 0;
    case CURLE_COULDNT_CONNECT:
        curl_easy_getinfo(request->easy, CURLINFO_OS_ERRNO, &error);
        return error == ECONNREFUSED || error == ECONNRESET || error == ETIMEDOUT;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
        return true;
    default:
        return false;
    }
}

/* Sets the result of a request that has ended. */
static void http_judge(struct http_request *request, CURLcode code)
{
    /* For a header above 100 KiB libcurl returns CURLE_OUT_OF_MEMORY, since 8.6 CURLE_TOO_LARGE. */
    enum { TOO_LARGE = 100, DIGITS = 18 };
    struct curl_header *length;
    bool lacking = code == CURLE_OUT_OF_MEMORY || (int)code == TOO_LARGE;
    long status = 0;

    request->too_large |= lacking && request->sendings && !request->head_ended;
    if (request->easy)
        curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &status);
    request->status = (int)status;
    /* A response that libcurl accepted is invalid if its headers are truncated, its final status is
     * not 200 to 599, or its Content-Length has more than 18 digits (libcurl stores 64 bits). */
    if (code == CURLE_OK &&
        (!request->head_ended || status < 200 || status > 599 ||
         (!curl_easy_header(request->easy, "Content-Length", 0, CURLH_HEADER, -1, &length) &&
          strlen(length->value) > DIGITS)))
        code = CURLE_WEIRD_SERVER_REPLY;
    request->servers_fault = http_is_servers_fault(request, code);
    request->outcome = request->sendings ? HTTP_BROKEN : HTTP_UNREACHABLE;
    if (code == CURLE_OK) {
        request->outcome = HTTP_ANSWERED;
    } else if (code == CURLE_OPERATION_TIMEDOUT) {
        request->outcome = HTTP_LATE;
        request->error = "The response did not arrive in time";
    } else if (request->socket.refused && !request->sendings) {
        request->outcome = HTTP_REFUSED;
        request->error = "The address or port is not allowed";
    } else if (request->too_large) {
        request->error = "The response is too large";
    } else if (code == CURLE_ABORTED_BY_CALLBACK) {
        request->error = "The connection was closed without a response";
    } else {
        request->error = curl_easy_strerror(code);
    }
}

static curl_socket_t http_socket(const struct http_request *request)
{
    curl_socket_t fd;

    return curl_easy_getinfo(request->easy, CURLINFO_ACTIVESOCKET, &fd) ? CURL_SOCKET_BAD : fd;
}

/* Ends a request. The function done() may free the request. */
static void http_finish(struct http_client *client, struct http_request *request, CURLcode code)
{
    curl_socket_t fd;
    struct tcp_info info;
    socklen_t size = sizeof(info);

    if (request->link.le_prev) /* in the list */
        LIST_REMOVE(request, link);
    /*
     * Shuts the connection down if nothing has arrived on it during the request, so that other
     * requests on the same connection fail at once instead of timing out, too.
     */
    if (code == CURLE_OPERATION_TIMEDOUT && request->sendings &&
        (fd = http_socket(request)) != CURL_SOCKET_BAD &&
        !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) &&
        (int64_t)info.tcpi_last_data_recv + TICK_MS >= request->timeout_ms)
        shutdown(fd, SHUT_RDWR);
    curl_multi_remove_handle(client->multi, request->easy); /* harmless if it was never added */
    http_judge(request, code);
    request->ended = true;
    if (request->done)
        request->done(request);
}

/* ---- the multi handle ---- */

static int http_on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
    const struct http_client *client = arg;
    struct epoll_event event = {.data.fd = fd};

    (void)easy, (void)known;
    if (what == CURL_POLL_REMOVE) {
        epoll_ctl(client->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    event.events = (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
    return epoll_ctl(client->epoll, EPOLL_CTL_MOD, fd, &event)
               ? epoll_ctl(client->epoll, EPOLL_CTL_ADD, fd, &event)
               : 0;
}

static int http_on_timer(CURLM *multi, long wait_ms, void *arg)
{
    (void)multi;
    ((struct http_client *)arg)->timer_at_ms = wait_ms < 0 ? NEVER : http_clock_ms() + wait_ms;
    return 0;
}

static int http_open_multi(struct http_client *client)
{
    const struct http_client_options *options = &client->options;
    CURLM *multi = client->multi ? NULL : curl_multi_init();

    if (client->multi)
        return 0;
    client->timer_at_ms = NEVER;
    if (multi && !curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, http_on_socket) &&
        !curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, client) &&
        !curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, http_on_timer) &&
        !curl_multi_setopt(multi, CURLMOPT_TIMERDATA, client) &&
        !curl_multi_setopt(multi, CURLMOPT_PIPELINING,
                           (long)(options->http2 ? CURLPIPE_MULTIPLEX : CURLPIPE_NOTHING)) &&
        !curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, (long)options->connections)) {
        client->multi = multi;
        return 0;
    }
    curl_multi_cleanup(multi);
    return -1;
}

/* Ends all requests. Disconnects sockets first, or libcurl would send buffered HTTP/2 data. */
static void http_close_multi(struct http_client *client, CURLcode code)
{
    static const struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct http_request *request;
    curl_socket_t fd;

    LIST_FOREACH (request, &client->flying, link)
        if ((fd = http_socket(request)) != CURL_SOCKET_BAD)
            (void)connect(fd, &none, sizeof(none));
    while (!LIST_EMPTY(&client->flying))
        http_finish(client, LIST_FIRST(&client->flying), code);
    curl_multi_cleanup(client->multi);
    client->multi = NULL;
    client->broken = false;
    client->timer_at_ms = NEVER;
}

/*
 * Lets libcurl handle a socket or timer. If memory runs out here, the multi handle must not be used
 * any more: libcurl would forget timeouts, and might divide by zero.
 */
static void http_act(struct http_client *client, curl_socket_t fd, int flags)
{
    int running;

    if (client->multi && !client->broken)
        client->broken = curl_multi_socket_action(client->multi, fd, flags, &running) != CURLM_OK;
}

static bool http_is_left(const struct http_request *request)
{
    return request->left && atomic_load(request->left);
}

static void http_least(int64_t *wait_ms, int64_t other)
{
    if (other < *wait_ms)
        *wait_ms = other > 0 ? other : 0;
}

/* Also closes idle connections, because libcurl does so only when a request needs a connection. */
void http_client_turn(struct http_client *client, int wake_fd, int64_t wait_ms)
{
    struct epoll_event events[EVENTS], wake = {.events = EPOLLIN, .data.fd = wake_fd};
    int64_t now = http_clock_ms();
    CURLMsg *message;
    uint64_t wakes;
    int left;

    if (wake_fd != client->wake_fd) {
        if (!epoll_ctl(client->epoll, EPOLL_CTL_ADD, wake_fd, &wake))
            client->wake_fd = wake_fd;
        else
            http_least(&wait_ms, WITHOUT_MEMORY_MS);
    }
    if (!LIST_EMPTY(&client->flying))
        client->unused_at_ms = now + client->options.idle_s * 1000;
    http_least(&wait_ms, LIST_EMPTY(&client->flying) ? WAIT_MS : CHECK_MS);
    if (client->multi) {
        http_least(&wait_ms, client->unused_at_ms - now);
        http_least(&wait_ms, client->timer_at_ms - now);
    }
    int count = epoll_wait(client->epoll, events, EVENTS, (int)wait_ms);

    if (client->options.goes_on && !LIST_EMPTY(&client->flying) &&
        !client->options.goes_on(client->options.arg))
        http_client_end(client);

    for (int i = 0; i < count; i++) {
        unsigned what = events[i].events;

        if (events[i].data.fd == client->wake_fd)
            (void)!read(client->wake_fd, &wakes, sizeof(wakes));
        else
            http_act(client, events[i].data.fd,
                     (what & EPOLLIN ? CURL_CSELECT_IN : 0) |
                         (what & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                         (what & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0));
    }
    now = http_clock_ms();
    if (now >= client->timer_at_ms) {
        client->timer_at_ms = NEVER;
        http_act(client, CURL_SOCKET_TIMEOUT, 0);
    }
    while (client->multi && (message = curl_multi_info_read(client->multi, &left))) {
        CURLcode code = message->data.result;
        struct http_request *request = NULL;

        if (message->msg == CURLMSG_DONE)
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request);
        if (request)
            http_finish(client, request, code);
    }
    if (now >= client->check_at_ms) { /* end requests that were abandoned or are late */
        client->check_at_ms = now + CHECK_MS;
        for (struct http_request *request = LIST_FIRST(&client->flying), *next; request;
             request = next) {
            next = LIST_NEXT(request, link);
            if (http_is_left(request) || now >= request->late_at_ms)
                http_finish(client, request, CURLE_OPERATION_TIMEDOUT);
        }
    }
    if (client->broken ||
        (client->multi && LIST_EMPTY(&client->flying) && now >= client->unused_at_ms))
        http_close_multi(client, CURLE_OUT_OF_MEMORY);
}

/* ---- starting and ending ---- */

void http_client_start(struct http_client *client, struct http_request *request)
{
    request->late_at_ms = http_clock_ms() + request->timeout_ms + LATE_MS;
    if (http_is_left(request)) {
        http_finish(client, request, CURLE_OPERATION_TIMEDOUT);
        return;
    }
    if ((!request->easy && http_request_prepare(client, request)) || http_open_multi(client) ||
        curl_multi_add_handle(client->multi, request->easy)) {
        http_finish(client, request, CURLE_OUT_OF_MEMORY);
        return;
    }
    LIST_INSERT_HEAD(&client->flying, request, link);
}

void http_client_perform(struct http_client *client, struct http_request *request)
{
    http_client_start(client, request);
    while (!request->ended)
        http_client_turn(client, -1, WAIT_MS);
}

void http_client_end(struct http_client *client)
{
    http_close_multi(client, CURLE_OPERATION_TIMEDOUT);
}

void http_client_free(struct http_client *client)
{
    if (!client)
        return;
    http_client_end(client);
    if (client->epoll >= 0)
        close(client->epoll);
    free(client);
}

struct http_client *http_client_new(const struct http_client_options *options)
{
    struct http_client *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    client->options = *options;
    /*
     * libcurl caches the certificates of a file, but reads a directory for each connection. Reading
     * Debian's directory takes ten times as long as a handshake, so a file is preferred.
     */
    CURL *easy = curl_easy_init();
    char *file = NULL;

    client->authorities_in_a_file =
        *options->authorities || (easy && !curl_easy_getinfo(easy, CURLINFO_CAINFO, &file) &&
                                  file && access(file, R_OK) == 0);
    curl_easy_cleanup(easy);
    client->guard.rules = options->rules;
    client->timer_at_ms = NEVER;
    client->wake_fd = -1;
    client->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (client->epoll >= 0)
        return client;
    http_client_free(client);
    return NULL;
}
