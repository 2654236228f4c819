#include "modules/webhook/http/transfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <busbar/abi.h>

#include "modules/webhook/http/retry_time.h"
#include "modules/webhook/http/transfer_sockets.h"

#define LATE_MS 1000 /* after libcurl's own limit */
#define CHECK_MS 250 /* between two checks for late transfers */

/* ---- responses ------------------------------------------------------------------------------- */

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    size_t length = size * count;

    if (transfer->body_bytes < TRANSFER_KEPT) {
        size_t room = TRANSFER_KEPT - transfer->body_bytes;

        memcpy(transfer->answer + transfer->body_bytes, data, length < room ? length : room);
    }
    transfer->body_bytes += length;
    transfer->cut = transfer->body_bytes > TRANSFER_BODY_MAX;
    return transfer->cut ? 0 : length;
}

static bool begins(const char *line, size_t length, const char *with)
{
    return length > strlen(with) && !strncasecmp(line, with, strlen(with));
}

/* Only a header of the final response counts, not of an earlier 1xx response, nor a trailer. */
static void heed_header(struct transfer *transfer, const char *line, size_t length)
{
    static const char name[] = "retry-after:";
    const char *space;

    if (transfer->headed)
        return;
    if (begins(line, length, "http/")) {
        space = memchr(line, ' ', length - 1);
        transfer->informational = space && space[1] == '1';
        transfer->retry_after_s = 0;
    } else if (line[0] == '\r' || line[0] == '\n') {
        transfer->headed = !transfer->informational;
    } else if (begins(line, length, name)) {
        transfer->retry_after_s =
            retry_time_after(line + strlen(name), length - strlen(name), (int64_t)time(NULL));
    }
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    size_t length = size * count;

    transfer->header_bytes += length;
    if (transfer->header_bytes > TRANSFER_HEADERS_MAX)
        return 0;
    if (length > 0)
        heed_header(transfer, data, length);
    return length;
}

/*
 * Called before a request is sent. If a kept-alive connection dies without a response, libcurl
 * sends the request again on another connection, up to five times; the receiver may have handled
 * each one. Only the schedule may decide about another attempt, so the transfer is aborted.
 */
static int on_sending(void *arg, char *remote, char *local, int remote_port, int local_port)
{
    struct transfer *transfer = arg;

    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    if (!transfer->sendings)
        transfer->unsent = !transfer->all->may_send(transfer->all->finished_arg);
    return ++transfer->sendings == 1 && !transfer->unsent ? CURL_PREREQFUNC_OK
                                                          : CURL_PREREQFUNC_ABORT;
}

/* ---- handles -------------------------------------------------------------------------------- */

#define SET(option, value) (bad = bad ? bad : curl_easy_setopt(easy, (option), (value)))

/* Sets the options that all requests have in common, once per handle. */
static bool set_options(struct transfer *transfer)
{
    const struct transfers *all = transfer->all;
    const struct target_options options = {.timeout_ms = all->settings.timeout_ms,
                                           .idle_s = all->settings.idle_ms / 1000,
                                           .http2 = all->settings.http2};
    CURL *easy = transfer->easy;
    CURLcode bad = target_set_options(easy, &options);

    if (all->authorities)
        SET(CURLOPT_CAPATH, NULL);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_ERRORBUFFER, transfer->error);
    SET(CURLOPT_PRIVATE, transfer);
    SET(CURLOPT_WRITEFUNCTION, on_body);
    SET(CURLOPT_WRITEDATA, transfer);
    SET(CURLOPT_HEADERFUNCTION, on_header);
    SET(CURLOPT_HEADERDATA, transfer);
    SET(CURLOPT_PREREQFUNCTION, on_sending);
    SET(CURLOPT_PREREQDATA, transfer);
    SET(CURLOPT_OPENSOCKETFUNCTION, sockets_open);
    SET(CURLOPT_OPENSOCKETDATA, transfer);
    SET(CURLOPT_CLOSESOCKETFUNCTION, sockets_close);
    SET(CURLOPT_CLOSESOCKETDATA, transfer->all);
    return !bad;
}
#undef SET

static void free_transfer(struct transfer *transfer)
{
    if (transfer->easy)
        curl_easy_cleanup(transfer->easy);
    free(transfer);
}

static struct transfer *make(struct transfers *all)
{
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 64;
        struct transfer **list = realloc(all->list, room * sizeof(*list));

        if (!list)
            return NULL;
        all->list = list;
        all->room = room;
    }
    struct transfer *transfer = calloc(1, sizeof(*transfer));

    if (!transfer)
        return NULL;
    transfer->all = all;
    transfer->socket.guard = &all->guard;
    transfer->easy = curl_easy_init();
    if (!transfer->easy || !set_options(transfer)) {
        free_transfer(transfer);
        return NULL;
    }
    all->list[all->count++] = transfer;
    return transfer;
}

static void let_go(struct transfer *transfer)
{
    if (transfer->receiver)
        receiver_finished(transfer->receiver);
    transfer->receiver = NULL;
    if (transfer->sessions) {
        curl_easy_setopt(transfer->easy, CURLOPT_SHARE, NULL);
        receiver_sessions_let_go(transfer->sessions);
    }
    transfer->sessions = NULL;
}

/*
 * libcurl 8.14, which Debian 13 has, leaks the name of a failed look-up when its handle looks up
 * another name (curl issue 17602). A handle that was reset does not.
 */
static bool refresh(struct transfer *transfer)
{
    curl_easy_reset(transfer->easy);
    transfer->failed = !set_options(transfer);
    return !transfer->failed;
}

void transfer_drop(struct transfer *transfer)
{
    transfer->arg = NULL;
    let_go(transfer);
    transfer->next = transfer->all->free_ones;
    transfer->all->free_ones = transfer;
}

/* ---- requests ------------------------------------------------------------------------------- */

BB_PRINTF(3, 4)
static int header(struct transfer *transfer, int *at, const char *format, ...)
{
    struct curl_slist *node = &transfer->headers[*at];
    va_list args;

    va_start(args, format);
    int length = vsnprintf(transfer->lines[*at], TRANSFER_HEADER_ROOM, format, args);
    va_end(args);
    node->data = transfer->lines[*at];
    node->next = NULL;
    if (*at)
        node[-1].next = node;
    ++*at;
    return length < 0 || length >= TRANSFER_HEADER_ROOM ? -1 : 0;
}

/* libcurl only reads a list of headers, so its nodes can be members of the transfer. */
static int write_headers(struct transfer *transfer, const struct transfer_request *request)
{
    int64_t timestamp = request->wall_ms / 1000;
    char hex[SIGN_HEX], standard[SIGN_STANDARD];
    int at = 0, bad = 0;

    if (sign_body(request->keys[0], request->body, request->length, hex) ||
        sign_standard(request->keys, request->key_count, request->event_id, timestamp,
                      request->body, request->length, standard))
        return -1;
    bad |= header(transfer, &at, "Content-Type: application/json");
    bad |= header(transfer, &at, "Expect:");
    bad |= header(transfer, &at, "X-Webhook-Event: %s", request->event);
    bad |= header(transfer, &at, "X-Webhook-Signature: %s", hex);
    bad |= header(transfer, &at, "X-Webhook-Attempt: %d", request->attempt);
    bad |= header(transfer, &at, "webhook-id: %s", request->event_id);
    bad |= header(transfer, &at, "webhook-timestamp: %" PRId64, timestamp);
    bad |= header(transfer, &at, "webhook-signature: %s", standard);
    if (*request->traceparent)
        bad |= header(transfer, &at, "traceparent: %s", request->traceparent);
    return bad;
}

/* Sets the receiver, and its TLS sessions. */
static bool set_receiver(struct transfer *transfer, const char *url)
{
    struct transfers *all = transfer->all;
    struct receiver *receiver = receivers_take(&all->receivers, url);

    transfer->receiver = receiver;
    if (!receiver)
        return false;
    transfer->sessions = receiver_sessions(&all->receivers, receiver, sockets_clock_ms());
    return transfer->sessions &&
           !curl_easy_setopt(transfer->easy, CURLOPT_SHARE, transfer->sessions->share);
}

/*
 * A retry uses a new connection, because the old connection may be the reason why the previous
 * attempt failed.
 */
static bool set_request(struct transfer *transfer, const struct transfer_request *request)
{
    CURL *easy = transfer->easy;

    return !curl_easy_setopt(easy, CURLOPT_URL, request->url) &&
           !curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers) &&
           !curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request->attempt > 1 ? 1L : 0L) &&
           !curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->length) &&
           !curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body);
}

struct transfer *transfer_prepare(struct transfers *all, const struct transfer_request *request,
                                  void *arg)
{
    struct transfer *transfer = all->free_ones;

    if (!all->multi || all->broken)
        return NULL;
    if (transfer)
        all->free_ones = transfer->next;
    else if (!(transfer = make(all)))
        return NULL;
    transfer->socket.refused = false;
    transfer->error[0] = '\0';
    transfer->body_bytes = transfer->header_bytes = 0;
    transfer->retry_after_s = 0;
    transfer->sendings = 0;
    transfer->informational = transfer->headed = transfer->cut = transfer->unsent = false;
    transfer->arg = arg;
    if ((!transfer->failed || refresh(transfer)) && !write_headers(transfer, request) &&
        set_request(transfer, request) && set_receiver(transfer, request->url))
        return transfer;
    transfer_drop(transfer);
    return NULL;
}

int transfer_start(struct transfer *transfer)
{
    struct transfers *all = transfer->all;

    transfer->started_at = sockets_clock_ms();
    transfer->late_at = transfer->started_at + all->settings.timeout_ms + LATE_MS;
    if (curl_multi_add_handle(all->multi, transfer->easy) == CURLM_OK)
        return 0;
    transfer_drop(transfer);
    return -1;
}

/* ---- the end of a request ------------------------------------------------------------------- */

static const char *kind(const struct transfer *transfer, CURLcode code)
{
    enum { TOO_LARGE = 100 };
    /* libcurl reports a line of more than 100 KiB as lack of memory; as CURLE_TOO_LARGE since 8.6.
     */
    bool line_too_long = (code == CURLE_OUT_OF_MEMORY || (int)code == TOO_LARGE) &&
                         transfer->sendings && !transfer->headed;

    if (transfer->header_bytes > TRANSFER_HEADERS_MAX || line_too_long)
        return "the response's headers are too large";
    if (transfer->sendings > 1)
        return "the connection was closed without a response";
    if (code == CURLE_COULDNT_CONNECT && transfer->socket.refused)
        return "the address or port is not allowed";
    return NULL;
}

/* Updates the receiver's properties, and closes a connection that stopped responding. */
static void learn(struct transfer *transfer, CURLcode code)
{
    long version = 0;

    curl_easy_getinfo(transfer->easy, CURLINFO_HTTP_VERSION, &version);
    if (version)
        transfer->receiver->http2 = version == CURL_HTTP_VERSION_2_0;
    if (code == CURLE_OPERATION_TIMEDOUT && transfer->receiver->http2)
        sockets_give_up(transfer);
}

/* If the body exceeds the limit, the status still decides, as with a complete body. */
static void land(struct transfer *transfer, CURLcode code)
{
    struct transfer_result result = {
        .arg = transfer->arg, .retry_after_s = transfer->retry_after_s, .unsent = transfer->unsent};
    long status = 0;

    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && transfer->cut))
        result.status = (int)status;
    if (!result.status) {
        const char *known = kind(transfer, code);

        result.kind = known ? known : curl_easy_strerror(code);
        result.error = !known && transfer->error[0] ? transfer->error : result.kind;
        /* libcurl's "OpenSSL/3.0.19: error:…" names the exact version to the webhook's owner. */
        const char *reason =
            strncmp(result.error, "OpenSSL/", 8) ? NULL : strstr(result.error, ": ");

        if (reason)
            result.error = reason + 2;
    }
    result.answer = transfer->answer;
    result.answer_length =
        transfer->body_bytes < TRANSFER_KEPT ? transfer->body_bytes : TRANSFER_KEPT;
    transfer->all->finished(transfer->all->finished_arg, &result);
}

/* Returns true if a transfer ended. */
static bool collect(struct transfers *all)
{
    CURLMsg *message;
    bool any = false;
    int left;

    while (all->multi && (message = curl_multi_info_read(all->multi, &left))) {
        struct transfer *transfer = NULL;
        CURL *easy = message->easy_handle;
        CURLcode code = message->data.result;

        if (message->msg != CURLMSG_DONE || idle_looked(all, easy))
            continue;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
        learn(transfer, code);
        curl_multi_remove_handle(all->multi, easy);
        land(transfer, code);
        transfer->failed = code != CURLE_OK;
        transfer_drop(transfer);
        any = true;
    }
    return any;
}

static void end(struct transfer *transfer, CURLcode code)
{
    curl_multi_remove_handle(transfer->all->multi, transfer->easy);
    land(transfer, code);
    transfer->failed = true;
    transfer_drop(transfer);
}

/*
 * Ends transfers that libcurl should have ended; otherwise their place in flight would be lost
 * forever.
 */
static void end_late(struct transfers *all)
{
    int64_t now = sockets_clock_ms();

    if (now < all->check_at)
        return;
    all->check_at = now + CHECK_MS;
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i]->arg && now >= all->list[i]->late_at)
            end(all->list[i], CURLE_OPERATION_TIMEDOUT);
}

static void end_all(struct transfers *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct transfer *transfer = all->list[i];

        transfer->sendings = 0; /* whatever the reason was, the transfer ends as out of memory */
        if (transfer->arg)
            end(transfer, CURLE_OUT_OF_MEMORY);
    }
}

static void make_multi(struct transfers *all)
{
    const struct transfers_settings *settings = &all->settings;
    long together = settings->http2 ? CURLPIPE_MULTIPLEX : CURLPIPE_NOTHING;

    all->multi = curl_multi_init();
    if (!all->multi)
        return;
    if (sockets_set_up(all) == 0 && !curl_multi_setopt(all->multi, CURLMOPT_PIPELINING, together) &&
        !curl_multi_setopt(all->multi, CURLMOPT_MAXCONNECTS, (long)settings->connections))
        return;
    curl_multi_cleanup(all->multi);
    all->multi = NULL;
}

/* Replaces a broken multi handle as soon as there is memory for a new one. */
static void renew(struct transfers *all)
{
    if (all->broken) {
        end_all(all);
        idle_stop(all);
        curl_multi_cleanup(all->multi);
        all->multi = NULL;
        all->broken = false;
        sockets_forget(all);
    }
    if (!all->multi)
        make_multi(all);
}

/* ---- turns ---------------------------------------------------------------------------------- */

void transfers_turn(struct transfers *all, int wake_fd, int64_t wait_ms)
{
    sockets_watch_wake(all, wake_fd);
    renew(all);
    idle_look(all);
    sockets_run_timer(all);
    if (collect(all)) /* the timers may have ended some transfers */
        wait_ms = 0;
    sockets_wait(all, wait_ms);
    sockets_run_timer(all);
    collect(all);
    end_late(all);
}

/* ---- all of it ------------------------------------------------------------------------------ */

void transfers_free(struct transfers *all)
{
    for (size_t i = 0; i < all->count; i++) {
        if (all->list[i]->arg)
            curl_multi_remove_handle(all->multi, all->list[i]->easy);
        let_go(all->list[i]);
        free_transfer(all->list[i]);
    }
    idle_stop(all);
    curl_easy_cleanup(all->look);
    if (all->multi)
        curl_multi_cleanup(all->multi);
    receivers_free(&all->receivers);
    if (all->epoll >= 0)
        close(all->epoll);
    free(all->list);
    free(all->sockets);
    free(all);
}

struct transfers *transfers_new(const struct target_rules *rules,
                                const struct transfers_settings *settings,
                                void (*finished)(void *, struct transfer_result *),
                                bool (*may_send)(const void *), void *arg)
{
    struct transfers *all = calloc(1, sizeof(*all));

    if (!all)
        return NULL;
    all->guard.rules = rules;
    all->settings = *settings;
    all->authorities = target_authorities_in_a_file();
    all->finished = finished;
    all->may_send = may_send;
    all->finished_arg = arg;
    all->timer_at = all->wake_fd = -1;
    all->epoll = epoll_create1(EPOLL_CLOEXEC);
    make_multi(all);
    if (!receivers_init(&all->receivers, settings->connections) && all->multi && all->epoll >= 0)
        return all;
    transfers_free(all);
    return NULL;
}
