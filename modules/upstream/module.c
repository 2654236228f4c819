/*
 * upstream: HTTP requests of other modules to other servers (<busbar/upstream.h>). A handler
 * creates a call, passes it to the worker and parks its fiber. The worker is a thread with an HTTP
 * client (http_client.h), which sends the calls and signals their completion. After a reload of the
 * configuration, the old worker runs until the requests that began before the reload have ended.
 */
#include <busbar/busbar.h>

#include <busbar/lock.h>
#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "modules/common/http_client.h"
#include "modules/common/slots.h"
#include "modules/common/tables.h"

#define UPSTREAM_WORKER "worker"

/* Outcomes of calls in addition to enum http_outcome, in the order of the metric's label. */
enum {
    UPSTREAM_BUSY = HTTP_OUTCOMES, /* not sent: too many calls in progress */
    UPSTREAM_PAUSED,               /* not sent: the host is paused */
    UPSTREAM_OUTCOMES
};

/* The settings, in the units of the table in module.c. */
struct upstream_settings {
    int64_t timeout, response_max, calls, calls_per_account, memory, connections, connection_idle;
    bool http2;
    const char *authorities; /* a file of certificates; "": the system's */
    json_t *allow_networks, *allow_ports, *open_networks;
};

/* The state of the module. Each reload of the configuration creates another one. */
struct upstream {
    struct bb_host *host;
    const struct upstream_settings *settings;
    struct target_rules targets;
    struct http_client *client; /* used by the worker only */
    struct slots *slots;
    pthread_mutex_t lock;
    STAILQ_HEAD(call_list, call) incoming; /* guarded by the lock: calls for the worker */
    /* guarded by the lock: the worker accepts calls; false in a command */
    bool open;
    atomic_size_t under_way;
    atomic_size_t bytes; /* used or reserved by all calls in progress */
};

enum {
    MIB = 1024 * 1024,
    METHOD_MAX = 32,
    TIMEOUT_MAX_MS = 24 * 3600 * 1000, /* longer than any deadline of a request */
    HEADERS_MAX = 64,                  /* of a request */
    BODY_MAX = 16 * MIB,               /* of a request */
    GRACE_MS = 500,                    /* time for the worker to report a timeout */
    LEAVING_MS = 50, /* pause between two checks whether the last request has ended */
    WAIT_MS = 60000,
    NOBODYS = -1 /* the common account of jobs, hooks, commands and public routes */
};

/*
 * One request in progress. The caller and the worker each hold a reference; the last release frees
 * the call. The caller fills it in before the worker gets it, and reads it after the completion. In
 * between, only the worker uses it.
 */
struct call {
    STAILQ_ENTRY(call) next; /* in the list of calls handed over */
    struct upstream *upstream;
    struct bb_completion *completion;
    atomic_uint holders;
    atomic_bool left;      /* the caller does not wait any more */
    bool handed, answered; /* whether the worker got the call, and the caller got the result */
    int64_t account;       /* holds one of upstream->slots for this call */
    /* bytes that count for upstream.memory: the body and body_max; at the end only the response */
    size_t bytes_held;

    /* The request, copied. */
    char method[METHOD_MAX + 1];
    char *body;
    struct http_request http;

    struct bb_upstream_response response;
    struct bb_upstream_header *lines; /* response.headers, in one block with their texts */
    char url[];                       /* of the request */
};

/* ---- checks of a request ---------------------------------------------------------------- */

/* Returns whether a header's name is a token (RFC 9110). */
static bool call_is_name(const char *text)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

    return *text && !text[strspn(text, token)];
}

/* Returns whether a header's value has no line ends and no control characters except tabs. */
static bool call_is_value(const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7F)
            return false;
    return true;
}

/*
 * Returns the reason why a request cannot be sent. If it can be sent, returns NULL, and sets *url
 * to the request's URL, percent-encoded by target_encode(). Both texts live as long as `rq`.
 */
static const char *call_problem(struct bb_request *rq, const struct upstream *upstream,
                                const struct bb_upstream_request *request, const char **url)
{
    static const char *const tunnels[] = {"CONNECT", "TRACE", NULL};

    if (request->size < sizeof(*request))
        return "The request's struct has an unsupported version";
    const char *method = request->method ? request->method : "GET";
    size_t letters = strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");

    if (!letters || letters > METHOD_MAX || method[letters] || http_is_one_of(method, tunnels))
        return "The method of the request is not valid";
    if (!request->url)
        return "The request has no URL";
    char *encoded = target_encode(request->url);

    if (!encoded)
        return "The URL of the request cannot be read now: out of memory";
    bb_defer(rq, free, encoded);
    *url = encoded;
    const char *problem = target_problem(&upstream->targets, encoded);

    if (problem)
        return bb_format(rq, "The URL of the request %s", problem);
    if (request->length > BODY_MAX || (request->length && !request->body))
        return "The body of the request is too long or missing";
    if (request->length && !strcmp(method, "HEAD"))
        return "A HEAD request must not have a body";
    /* headers of the connection and of the body's length, which libcurl writes */
    static const char *const own[] = {"host",
                                      "content-length",
                                      "transfer-encoding",
                                      "connection",
                                      "keep-alive",
                                      "proxy-connection",
                                      "proxy-authorization",
                                      "expect",
                                      "upgrade",
                                      "http2-settings",
                                      "te",
                                      "trailer",
                                      NULL};
    size_t bytes = 0;

    if (request->header_count > HEADERS_MAX)
        return "The request has too many headers";
    for (size_t i = 0; i < request->header_count; i++) {
        const char *name = request->headers[i].name, *value = request->headers[i].value;

        if (!name || !value || !call_is_name(name) || !call_is_value(value))
            return "A header of the request is not valid";
        if (http_is_one_of(name, own))
            return bb_format(rq, "The request must not contain the header %s", name);
        bytes += strlen(name) + strlen(value) + strlen(": \r\n");
    }
    return bytes > HTTP_HEAD_MAX ? "The headers of the request are too long" : NULL;
}

/* ---- memory ----------------------------------------------------------------------------- */

/* Any thread. Releases a reference, and frees the call if it was the last one. */
static void call_release(struct call *call)
{
    if (atomic_fetch_sub(&call->holders, 1) != 1)
        return;
    atomic_fetch_sub(&call->upstream->bytes, call->bytes_held);
    curl_slist_free_all(call->http.headers);
    free(call->http.bytes);
    free(call->body);
    free(call->lines);
    free(call);
}

/* Called when the request that made the call ends. Abandons a call that is still in progress. */
static void call_leave(void *arg)
{
    struct call *call = arg;

    if (call->handed && !call->answered) {
        atomic_store(&call->left, true);
        bb_wake(call->upstream->host, UPSTREAM_WORKER);
    }
    call_release(call);
}

static bool call_append(struct call *call, const char *line)
{
    struct curl_slist *longer = curl_slist_append(call->http.headers, line);

    if (longer)
        call->http.headers = longer;
    return longer != NULL;
}

static void call_done(struct http_request *http);

/* Creates a call for a checked request. The end of `rq` releases it. NULL: out of memory. */
static struct call *call_new(struct bb_request *rq, struct upstream *upstream,
                             const struct bb_upstream_request *request, const char *url)
{
    const struct upstream_settings *settings = upstream->settings;
    size_t memory = (size_t)settings->memory * MIB, wanted = request->response_max;
    int64_t timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : settings->timeout;
    struct call *call = calloc(1, sizeof(*call) + strlen(url) + 1);

    if (!call)
        return NULL;
    atomic_init(&call->holders, 1);
    call->upstream = upstream;
    bb_defer(rq, call_leave, call);
    call->account =
        rq->principal && rq->principal->account ? rq->principal->account : (int64_t)NOBODYS;
    strcpy(call->method, request->method ? request->method : "GET");
    call->body = request->body ? malloc(request->length + 1) : NULL;
    bool traced = false, good = call_append(call, "Expect:");

    /* libcurl sends a header with an empty value for "Name;". "Name:" would remove the header. */
    for (size_t i = 0; i < request->header_count && good; i++) {
        const char *name = request->headers[i].name, *value = request->headers[i].value;

        value += strspn(value, BB_BLANKS);
        traced |= !strcasecmp(name, "traceparent");
        good = call_append(call, *value ? bb_format(rq, "%s: %s", name, value)
                                        : bb_format(rq, "%s;", name));
    }
    if (good) /* libcurl ignores this entry if the request has the header */
        good = call_append(call, "Content-Type:");
    if (good && !traced)
        good = call_append(call, bb_format(rq, "traceparent: %s", bb_traceparent(rq)));
    if (!good || (request->body && !call->body))
        return NULL;
    if (call->body && request->body)
        memcpy(call->body, request->body, request->length);
    if (!wanted)
        wanted = (size_t)settings->response_max * 1024;
    call->http.method = call->method;
    call->http.url = strcpy(call->url, url);
    call->http.body = call->body;
    call->http.length = (int64_t)request->length;
    call->http.timeout_ms = timeout_ms < TIMEOUT_MAX_MS ? timeout_ms : TIMEOUT_MAX_MS;
    call->http.body_max = wanted < memory ? wanted : memory;
    call->http.left = &call->left;
    call->http.done = call_done;
    call->http.arg = call;
    return call;
}

/* ---- the service ------------------------------------------------------------------------ */

/* Returns a response without data, which reports why no request was sent. */
static const struct bb_upstream_response *call_not_sent(struct bb_request *rq,
                                                        struct upstream *upstream, size_t outcome,
                                                        int failed, const char *error)
{
    struct bb_upstream_response *response = bb_alloc(rq, sizeof(*response));

    bb_metric_add(upstream->host, 0, outcome, 1);
    *response = (struct bb_upstream_response){
        .size = sizeof(*response), .failed = failed, .error = error, .body = ""};
    return response;
}

/* Releases the call's slot. After this, only the response counts as used memory. Any thread. */
static void call_leave_place(struct upstream *upstream, struct call *call)
{
    size_t over = call->bytes_held - call->response.length;

    call->bytes_held = call->response.length;
    atomic_fetch_sub(&upstream->bytes, over);
    slot_release(upstream->slots, call->account);
}

static const struct bb_upstream_response *upstream_send(void *state, struct bb_request *rq,
                                                        const struct bb_upstream_request *request)
{
    static const struct bb_upstream_response late = {.size = sizeof(late),
                                                     .failed = 504,
                                                     .error = "The response did not arrive in time",
                                                     .sent = true,
                                                     .body = ""};
    struct upstream *upstream = state;
    const char *url;
    const char *problem = call_problem(rq, upstream, request, &url);

    if (problem)
        return call_not_sent(rq, upstream, HTTP_REFUSED, 502, problem);
    if (bb_pause_reason(rq))
        return call_not_sent(rq, upstream, UPSTREAM_PAUSED, 503,
                             "Requests to other servers are paused");
    struct call *call = call_new(rq, upstream, request, url);

    if (!call)
        return call_not_sent(rq, upstream, UPSTREAM_BUSY, 503, "Out of memory");
    size_t most = (size_t)upstream->settings->memory * MIB, held = atomic_load(&upstream->bytes);
    size_t bytes = (size_t)call->http.length + call->http.body_max;
    bool placed = !slot_try(upstream->slots, call->account), fits;

    /* A single call may exceed the limit, because otherwise large calls would never be possible. */
    do
        fits = placed && (!held || held + bytes <= most);
    while (fits && !atomic_compare_exchange_weak(&upstream->bytes, &held, held + bytes));
    if (placed && !fits)
        slot_release(upstream->slots, call->account);
    if (!fits)
        return call_not_sent(rq, upstream, UPSTREAM_BUSY, 503,
                             "Too many requests to other servers in progress");
    call->bytes_held = bytes;
    call->completion = bb_completion(rq);
    if (call->completion) {
        BB_LOCKED(&upstream->lock);
        call->handed = upstream->open;
        if (call->handed) {
            atomic_fetch_add(&call->holders, 1);
            atomic_fetch_add(&upstream->under_way, 1);
            STAILQ_INSERT_TAIL(&upstream->incoming, call, next);
        }
    }
    if (!call->handed) {
        if (call->completion)
            bb_completion_signal(rq->host, call->completion);
        call_leave_place(upstream, call);
        return call_not_sent(rq, upstream, UPSTREAM_BUSY, 503,
                             call->completion
                                 ? "Requests to other servers are not possible at the moment"
                                 : "Out of memory");
    }
    bb_wake(upstream->host, UPSTREAM_WORKER);
    /* If the wait times out, the worker may still be writing call->response. */
    if (bb_completion_wait(rq, call->completion, call->http.timeout_ms + GRACE_MS))
        return &late;
    call->answered = true;
    return &call->response;
}

/* ---- the response, on the worker's thread ------------------------------------------------ */

/* Returns the next header after `at` that is valid (RFC 9110), or NULL. */
static struct curl_header *call_next_header(CURL *easy, struct curl_header *at)
{
    do
        at = curl_easy_nextheader(easy, CURLH_HEADER, -1, at);
    while (at && (!call_is_name(at->name) || !call_is_value(at->value)));
    return at;
}

/* Copies the headers of the final response. Returns 0, or -1 if out of memory. */
static int call_take_headers(struct call *call)
{
    size_t count = 0, bytes = 0, done = 0;
    struct curl_header *at = NULL;

    /* libcurl's list is read twice: the first pass counts the sizes, the second copies. */
    for (; (at = call_next_header(call->http.easy, at)) != NULL; count++)
        bytes += strlen(at->name) + strlen(at->value) + 2;
    struct bb_upstream_header *lines = malloc(count * sizeof(*lines) + bytes + 1);

    if (!lines)
        return -1;
    char *text = (char *)(lines + count);

    for (; done < count && (at = call_next_header(call->http.easy, at)) != NULL; done++) {
        lines[done].name = text;
        for (const char *name = at->name; *name; name++)
            *text++ = (char)tolower((unsigned char)*name);
        *text++ = '\0';
        lines[done].value = text;
        text = stpcpy(text, at->value) + 1;
    }
    call->lines = lines;
    call->response.headers = lines;
    call->response.header_count = done;
    return 0;
}

/* Sets the call's result. After bb_completion_signal(), the call belongs to its caller. */
static void call_done(struct http_request *http)
{
    struct call *call = http->arg;
    struct upstream *upstream = call->upstream;
    struct bb_completion *completion = call->completion;
    struct bb_upstream_response *response = &call->response;

    *response = (struct bb_upstream_response){
        .size = sizeof(*response), .sent = http->sendings > 0, .body = ""};
    if (http->outcome == HTTP_ANSWERED && call_take_headers(call)) {
        http->outcome = HTTP_BROKEN;
        http->error = curl_easy_strerror(CURLE_OUT_OF_MEMORY);
    }
    http_request_close(http);
    free(call->body); /* not needed any more; the response may live much longer */
    call->body = NULL;
    if (http->outcome == HTTP_ANSWERED) {
        response->status = http->status;
        response->body = http->bytes ? http->bytes : "";
        response->length = http->received;
    } else {
        response->failed = http->outcome == HTTP_LATE ? 504 : 502;
        response->error = http->error;
        free(http->bytes);
        http->bytes = NULL;
    }
    bb_metric_add(upstream->host, 0, http->outcome, 1);
    atomic_fetch_sub(&upstream->under_way, 1);
    call_leave_place(upstream, call);
    call_release(call);
    bb_completion_signal(upstream->host, completion);
}

/* ---- the worker --------------------------------------------------------------------------- */

static void call_start_incoming(struct upstream *upstream)
{
    struct call_list calls = STAILQ_HEAD_INITIALIZER(calls);
    struct call *call;

    pthread_mutex_lock(&upstream->lock);
    STAILQ_CONCAT(&calls, &upstream->incoming);
    pthread_mutex_unlock(&upstream->lock);
    while ((call = STAILQ_FIRST(&calls))) {
        STAILQ_REMOVE_HEAD(&calls, next);
        http_client_start(upstream->client, &call->http);
    }
}

/* After a reload, runs until all requests that may still make calls have ended (bb_drained()). */
static void upstream_work(struct bb_worker_context *context)
{
    struct upstream *upstream = context->host->state;

    while (!bb_stopping(context) || (bb_leave_ms(context) > 0 && !bb_drained(context))) {
        call_start_incoming(upstream);
        http_client_turn(upstream->client, context->wake_fd,
                         bb_stopping(context) ? LEAVING_MS : WAIT_MS);
    }
    pthread_mutex_lock(&upstream->lock);
    upstream->open = false;
    pthread_mutex_unlock(&upstream->lock);
    call_start_incoming(upstream);
    http_client_end(upstream->client);
}

/* ---- the module ---- */

// clang-format off

#define SETTINGS struct upstream_settings
static const struct bb_field settings[] = {
    SETTING_INT(timeout, BB_MILLISECONDS, 1, 300000, "10000",
        "Timeout in milliseconds until the response is complete, unless the module sets another "
        "time. It is never longer than the deadline of the request for which the module calls the "
        "server."),
    SETTING_INT(response_max, 0, 1, 65536, "1024",
        "Maximum size of a response body in KiB, unless the module sets another size."),
    SETTING_INT(calls, 0, 1, 4096, "256",
        "Maximum number of requests to other servers in progress on each host. Requests of a "
        "previous configuration do not count after a reload."),
    SETTING_INT(calls_per_account, 0, 1, 4096, "64",
        "Maximum number of requests to other servers in progress for an account. All public "
        "routes, jobs and hooks together count as one account."),
    SETTING_INT(memory, 0, 1, 65536, "256",
        "Maximum memory in MiB. For a request in progress, its body and the maximum size of its response count; "
        "later only its response counts, until the module has used it. Further requests fail."),
    SETTING_INT(connections, 0, 1, 4096, "64", "Maximum number of idle connections on each host."),
    SETTING_INT(connection_idle, BB_SECONDS, 1, 3600, "60",
        "Seconds after which an idle connection is no longer used. It is closed when the next "
        "request looks for a connection, or when no request has been in progress for this time."),
    SETTING_BOOL(http2, "false",
        "Whether to use HTTP/2 if a server offers it over TLS. libcurl 7.88 (in Debian 12) resets "
        "a stream after each response without Content-Length, and servers that limit resets then "
        "close the connection with all its requests in progress."),
    SETTING_TEXT(authorities, 0, 1024, "",
        "File with the certificates (PEM) of the authorities that the host trusts. Empty: the "
        "authorities that the system trusts."),
    TARGET_SETTINGS(struct upstream_settings, "requests"),
};

static const struct bb_upstream interface = {.size = sizeof(interface), .send = upstream_send};

static const struct bb_service_descriptor services[] = {{BB_UPSTREAM, 1, &interface}};

static const struct bb_worker workers[] = {{.name = UPSTREAM_WORKER, .run = upstream_work}};

static const char *const outcomes[UPSTREAM_OUTCOMES + 1] = {
    "answered", "refused", "unreachable", "broken", "late", "busy", "paused", NULL};

static double upstream_under_way(void *state, size_t value)
{
    (void)value;
    return (double)atomic_load(&((struct upstream *)state)->under_way);
}

static const struct bb_metric metrics[] = {
    {.name = "calls_total", .kind = BB_COUNTER, .label = "outcome", .values = outcomes,
     .help = "Requests of modules to other servers. The outcome is `answered` after a complete "
             "response with any status; `refused`, `busy`, `paused` or `unreachable` if the "
             "request was not sent; `broken` or `late` without a complete response."},
    {.name = "calls", .kind = BB_GAUGE, .read = upstream_under_way,
     .help = "Requests of modules to other servers in progress."},
};

// clang-format on

static void upstream_close(struct bb_host *host, void *state)
{
    struct upstream *upstream = state;

    (void)host;
    http_client_free(upstream->client);
    target_rules_free(&upstream->targets);
    slots_free(upstream->slots);
    pthread_mutex_destroy(&upstream->lock);
}

static int upstream_open(struct bb_host *host, void **state)
{
    const struct upstream_settings *own = bb_settings(host);
    struct upstream *upstream = bb_host_alloc(host, sizeof(*upstream));
    char why[256];

    if (!upstream || pthread_mutex_init(&upstream->lock, NULL))
        return bb_open_fail(host, "out of memory");
    upstream->host = host;
    upstream->settings = own;
    STAILQ_INIT(&upstream->incoming);
    if (*own->authorities && access(own->authorities, R_OK))
        return bb_open_fail(host, "authorities: %s cannot be read", own->authorities);
    if (target_rules_read(&upstream->targets, own->allow_networks, own->allow_ports,
                          own->open_networks, why, sizeof(why)))
        return bb_open_fail(host, "%s", why);
    upstream->client =
        http_client_new(&(struct http_client_options){.rules = &upstream->targets,
                                                      .authorities = own->authorities,
                                                      .idle_s = own->connection_idle,
                                                      .connections = (size_t)own->connections,
                                                      .http2 = own->http2});
    upstream->slots = slots_new(host, own->calls, own->calls_per_account, "calls");
    if (!upstream->client || !upstream->slots) {
        upstream_close(host, upstream);
        return bb_open_fail(host, "out of memory");
    }
    *state = upstream;
    return 0;
}

/* Called before the first request. Not called in a command, which has no worker. */
static void upstream_start(struct bb_host *host, void *state)
{
    struct upstream *upstream = state;

    (void)host;
    BB_LOCKED(&upstream->lock);
    upstream->open = true;
}

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("upstream", "1.0.0"),
    .help = "HTTP requests of other modules to other servers.",
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct upstream_settings),
    .services = BB_TABLE(services),
    .workers = BB_TABLE(workers),
    .metrics = BB_TABLE(metrics),
    .open = upstream_open,
    .start = upstream_start,
    .close = upstream_close,
};
