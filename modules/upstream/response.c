/* A response as it arrives from libcurl. Runs on the worker's thread. */
#include <ctype.h>
#include <stdlib.h>

#include "modules/upstream/call.h"
#include "modules/upstream/header.h"

enum { FIRST_ROOM = 4096 };

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

size_t response_body(char *data, size_t size, size_t count, void *arg)
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
size_t response_head(char *data, size_t size, size_t count, void *arg)
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

/* Skips headers that violate the rules of header.h. */
static struct curl_header *next_header(CURL *easy, struct curl_header *at)
{
    do
        at = curl_easy_nextheader(easy, CURLH_HEADER, -1, at);
    while (at && (!header_is_name(at->name) || !header_is_value(at->value)));
    return at;
}

/* The two passes over libcurl's list: first the sizes, then the contents. */
static size_t text_bytes(CURL *easy, size_t *count)
{
    size_t bytes = 0;

    for (struct curl_header *at = NULL; (at = next_header(easy, at)) != NULL; ++*count)
        bytes += strlen(at->name) + strlen(at->value) + 2;
    return bytes;
}

bool response_take_headers(struct call *call)
{
    size_t count = 0, bytes = text_bytes(call->easy, &count);
    struct bb_upstream_header *lines = malloc(count * sizeof(*lines) + bytes + 1);

    if (!lines)
        return false;
    char *text = (char *)(lines + count);

    call->lines = lines;
    for (struct curl_header *at = NULL; (at = next_header(call->easy, at)) != NULL; lines++) {
        lines->name = text;
        text = put(text, at->name, true);
        lines->value = text;
        text = put(text, at->value, false);
    }
    call->response.headers = call->lines;
    call->response.header_count = count;
    return true;
}
