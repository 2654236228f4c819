/* One call as one transfer of libcurl. Runs on the worker's thread. */
#include <stdlib.h>

#include "modules/upstream/call.h"

#define LATE_MS 250 /* after libcurl's own limit */

/*
 * Returns whether a request may be sent again over another connection if the first one dies (RFC
 * 9110, 9.2.2).
 */
static bool is_idempotent(const char *method)
{
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"};

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (!strcmp(method, methods[i]))
            return true;
    return false;
}

/*
 * Called before a request is sent. libcurl sends it again if a kept connection dies without a
 * response.
 */
static int on_sending(void *arg, char *remote, char *local, int remote_port, int local_port)
{
    struct call *call = arg;

    (void)remote;
    (void)local;
    (void)remote_port;
    (void)local_port;
    call->sendings++;
    return call->sendings == 1 || (call->sendings == 2 && is_idempotent(call->method))
               ? CURL_PREREQFUNC_OK
               : CURL_PREREQFUNC_ABORT;
}

static CURLcode set_authorities(CURL *easy, const struct upstream *upstream)
{
    const char *own = upstream->settings->authorities;
    CURLcode bad = *own ? curl_easy_setopt(easy, CURLOPT_CAINFO, own) : CURLE_OK;

    return bad || !upstream->authorities_in_a_file ? bad
                                                   : curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
}

#define SET(option, value) (bad = bad ? bad : curl_easy_setopt(call->easy, (option), (value)))

/* Sets the body, with any method; POST, PUT and PATCH always have one, even if it is empty. */
static CURLcode set_request(struct call *call)
{
    bool bodied = !strcmp(call->method, "POST") || !strcmp(call->method, "PUT") ||
                  !strcmp(call->method, "PATCH");
    CURLcode bad = curl_easy_setopt(call->easy, CURLOPT_URL, call->url);

    SET(CURLOPT_HTTPHEADER, call->headers);
    if (!strcmp(call->method, "HEAD")) {
        SET(CURLOPT_NOBODY, 1L);
        return bad;
    }
    if (call->body || bodied) {
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->length);
        SET(CURLOPT_POSTFIELDS, call->body ? call->body : "");
    }
    SET(CURLOPT_CUSTOMREQUEST, call->method);
    return bad;
}

static CURLcode set_options(struct call *call)
{
    const struct upstream_settings *settings = call->upstream->settings;
    const struct target_options options = {.timeout_ms = call->timeout_ms,
                                           .idle_s = settings->connection_idle,
                                           .http2 = settings->http2};
    CURLcode bad = target_set_options(call->easy, &options);

    bad = bad ? bad : set_authorities(call->easy, call->upstream);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_PRIVATE, call);
    return bad;
}

static CURLcode set_functions(struct call *call)
{
    CURLcode bad = curl_easy_setopt(call->easy, CURLOPT_WRITEFUNCTION, response_body);

    SET(CURLOPT_WRITEDATA, call);
    SET(CURLOPT_HEADERFUNCTION, response_head);
    SET(CURLOPT_HEADERDATA, call);
    SET(CURLOPT_PREREQFUNCTION, on_sending);
    SET(CURLOPT_PREREQDATA, call);
    SET(CURLOPT_OPENSOCKETFUNCTION, target_open_socket);
    SET(CURLOPT_OPENSOCKETDATA, &call->socket);
    return bad;
}
#undef SET

bool transfer_begin(struct call *call, CURLM *multi, struct target_guard *guard)
{
    call->late_at_ms = bb_now_ms(call->upstream->host) + call->timeout_ms + LATE_MS;
    call->socket = (struct target_socket){.guard = guard};
    call->easy = curl_easy_init();
    return call->easy && !set_options(call) && !set_functions(call) && !set_request(call) &&
           !curl_multi_add_handle(multi, call->easy);
}

/* libcurl reports a line of more than 100 KiB as lack of memory; as CURLE_TOO_LARGE since 8.6. */
static bool line_too_long(const struct call *call, CURLcode code)
{
    enum { TOO_LARGE = 100 };

    return (code == CURLE_OUT_OF_MEMORY || (int)code == TOO_LARGE) && call->sendings &&
           !call->head_ended;
}

static const char *reason(const struct call *call, CURLcode code)
{
    if (call->too_large || line_too_long(call, code))
        return "The response is too large";
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return "The connection was closed without a response";
    return curl_easy_strerror(code);
}

static enum upstream_outcome fail(struct call *call, CURLcode code)
{
    if (code == CURLE_OPERATION_TIMEDOUT) {
        call_fail(call, 504, "The request was not answered in time");
        return UPSTREAM_LATE;
    }
    if (call->socket.refused && !call->sendings) {
        call_fail(call, 502, "The address or port is not allowed");
        return UPSTREAM_REFUSED;
    }
    call_fail(call, 502, reason(call, code));
    return call->sendings ? UPSTREAM_BROKEN : UPSTREAM_UNREACHABLE;
}

/*
 * libcurl accepts truncated headers as complete, 101 as a final status, and any three digits as a
 * status, and ignores a length of more digits than it can store.
 */
static bool is_whole(const struct call *call, long status)
{
    enum { DIGITS = 18 };
    const char *length = bb_upstream_header(&call->response, "content-length");

    return call->head_ended && status >= 200 && status <= 599 &&
           (!length || strlen(length) <= DIGITS);
}

/* Takes the response; its body ends with a NUL. */
static CURLcode take(struct call *call)
{
    long status = 0;

    if (curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status) ||
        !response_take_headers(call))
        return CURLE_OUT_OF_MEMORY;
    if (!is_whole(call, status))
        return CURLE_WEIRD_SERVER_REPLY;
    if (call->bytes)
        call->bytes[call->response.length] = '\0';
    call->response.body = call->bytes ? call->bytes : "";
    call->response.status = (int)status;
    return CURLE_OK;
}

enum upstream_outcome transfer_end(struct call *call, CURLM *multi, CURLcode code)
{
    enum upstream_outcome outcome = UPSTREAM_ANSWERED;

    call->response.size = sizeof(call->response);
    if (code == CURLE_OK)
        code = take(call);
    if (call->easy) { /* before its callbacks' targets are freed */
        curl_multi_remove_handle(multi, call->easy);
        curl_easy_cleanup(call->easy);
    }
    call->easy = NULL;
    if (code != CURLE_OK)
        outcome = fail(call, code);
    call->response.sent = call->sendings > 0;
    free(call->body); /* the caller may keep its request for long, and call again */
    call->body = NULL;
    return outcome;
}
