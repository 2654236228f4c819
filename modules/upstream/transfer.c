/* One call as one transfer of libcurl. Runs on the worker's thread. */
#include "modules/upstream/upstream.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum {
    LATE_MS = 250, /* after libcurl's own limit */
    FIRST_ROOM = 4096
};

/* ---- the response as it arrives ---- */

/* Makes room for the bytes and a NUL. */
static bool make_room(struct call *call, size_t length)
{
    size_t room = call->room ? call->room : FIRST_ROOM;

    if (length < call->room)
        return true;
    while (room <= length)
        room *= 2;
    char *bytes = realloc(call->bytes, room);

    if (!bytes)
        return false;
    call->bytes = bytes;
    call->room = room;
    return true;
}

static size_t response_body(char *data, size_t size, size_t count, void *arg)
{
    struct call *call = arg;
    size_t length = size * count, all = call->response.length + length;

    call->too_large = all > call->response_max;
    if (call->too_large || !make_room(call, all))
        return 0;
    memcpy(call->bytes + call->response.length, data, length);
    call->response.length = all;
    return length;
}

/*
 * The lines of all responses count, including those before the final one; libcurl keeps the headers
 * of the last.
 */
static size_t response_head(char *data, size_t size, size_t count, void *arg)
{
    struct call *call = arg;

    if (size * count >= 5 && !strncmp(data, "HTTP/", 5))
        call->head_ended = false;
    else if (size * count > 0 && (data[0] == '\r' || data[0] == '\n'))
        call->head_ended = true;
    call->header_bytes += size * count;
    call->too_large = call->header_bytes > CALL_HEADER_BYTES_MAX;
    return call->too_large ? 0 : size * count;
}

static char *put(char *at, const char *text, bool lower)
{
    for (; *text; text++)
        *at++ = lower ? (char)tolower((unsigned char)*text) : *text;
    *at = '\0';
    return at + 1;
}

/* Skips headers that violate RFC 9110. */
static struct curl_header *next_header(CURL *easy, struct curl_header *at)
{
    do
        at = curl_easy_nextheader(easy, CURLH_HEADER, -1, at);
    while (at && (!header_is_name(at->name) || !header_is_value(at->value)));
    return at;
}

/*
 * Keeps the headers of the final response. Returns false if out of memory, or if there are too
 * many.
 */
static bool response_take_headers(struct call *call)
{
    size_t count = 0, bytes = 0;

    /* Two passes over libcurl's list: first the sizes, then the contents. */
    for (struct curl_header *at = NULL; (at = next_header(call->easy, at)) != NULL; count++)
        bytes += strlen(at->name) + strlen(at->value) + 2;
    struct bb_upstream_header *lines = malloc(count * sizeof(*lines) + bytes + 1);

    if (!lines)
        return false;
    char *text = (char *)(lines + count);
    struct curl_header *at = NULL;
    size_t done = 0;

    for (; done < count && (at = next_header(call->easy, at)) != NULL; done++) {
        lines[done].name = text;
        text = put(text, at->name, true);
        lines[done].value = text;
        text = put(text, at->value, false);
    }
    call->lines = lines;
    call->response.headers = lines;
    call->response.header_count = done;
    return true;
}

/* ---- the request ---- */

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

    if (*settings->authorities)
        SET(CURLOPT_CAINFO, settings->authorities);
    if (call->upstream->authorities_in_a_file)
        SET(CURLOPT_CAPATH, NULL);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_PRIVATE, call);
    SET(CURLOPT_WRITEFUNCTION, response_body);
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
    return call->easy && !set_options(call) && !set_request(call) &&
           !curl_multi_add_handle(multi, call->easy);
}

static const char *reason(const struct call *call, CURLcode code)
{
    /* libcurl reports a line of more than 100 KiB as lack of memory; as CURLE_TOO_LARGE since 8.6
     */
    enum { TOO_LARGE = 100 };
    bool lacking = code == CURLE_OUT_OF_MEMORY || (int)code == TOO_LARGE;

    if (call->too_large || (lacking && call->sendings && !call->head_ended))
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
 * Takes the response; its body ends with a NUL. libcurl accepts truncated headers as complete, 101
 * as a final status, and any three digits as a status, and ignores a length of more digits than it
 * can store.
 */
static CURLcode take(struct call *call)
{
    enum { DIGITS = 18 };
    long status = 0;

    if (curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status) ||
        !response_take_headers(call))
        return CURLE_OUT_OF_MEMORY;
    const char *length = bb_upstream_header(&call->response, "content-length");

    if (!call->head_ended || status < 200 || status > 599 || (length && strlen(length) > DIGITS))
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
