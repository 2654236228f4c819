/* The option `headers`: headers that a webhook's owner adds to each request. */
#include <string.h>
#include <strings.h>

#include "modules/webhook/api/api.h"

enum { HEADERS_MAX = 20, HEADERS_BYTES = 8192, HEADER_NAME_MAX = 128, SEPARATORS = 4 };

/* Headers that the sender or libcurl sets, and those that belong to a connection. */
static bool header_is_reserved(const char *name)
{
    static const char *const names[] = {"Host",       "Connection", "Keep-Alive", "TE",
                                        "Trailer",    "Upgrade",    "Expect",     "HTTP2-Settings",
                                        "User-Agent", "traceparent"};
    static const char *const beginnings[] = {"Content-", "Transfer-", "Proxy-", "webhook-",
                                             "X-Webhook-"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcasecmp(name, names[i]))
            return true;
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++)
        if (!strncasecmp(name, beginnings[i], strlen(beginnings[i])))
            return true;
    return false;
}

static bool header_is_name(const char *name)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t length = strlen(name);

    return length && length <= HEADER_NAME_MAX && strspn(name, token) == length;
}

/* Returns what is wrong with a value, or NULL. */
static const char *header_value_problem(const json_t *value)
{
    const char *text = json_string_value(value);

    if (!text)
        return "must be a string";
    if (!text[strspn(text, " \t")])
        return "must not be empty";
    if (!strncmp(text, "****", 4))
        return "must be the value itself, not its masked form";
    for (size_t i = 0; i < json_string_length(value); i++)
        if ((text[i] < ' ' && text[i] != '\t') || text[i] > '~')
            return "must have printable ASCII characters only";
    return NULL;
}

int headers_take(struct bb_request *rq, int64_t webhook, json_t *value, json_t *columns)
{
    const char *name;
    json_t *text;
    size_t bytes = 0;

    if (json_object_size(value) == 0)
        return option_seal(rq, webhook, WEBHOOK_PART_HEADERS, NULL, columns);
    if (json_object_size(value) > HEADERS_MAX)
        return bb_invalid(rq, "headers", "must have at most %d members", HEADERS_MAX);
    json_object_foreach(value, name, text)
    {
        if (!header_is_name(name))
            return bb_invalid(rq, "headers",
                              "must have names of headers (RFC 9110), up to %d bytes",
                              HEADER_NAME_MAX);
        const char *problem = header_is_reserved(name) ? "is reserved" : header_value_problem(text);

        if (problem)
            return bb_invalid(rq, bb_format(rq, "headers.%s", name), "%s", problem);
        bytes += strlen(name) + json_string_length(text) + SEPARATORS;
    }
    if (bytes > HEADERS_BYTES)
        return bb_invalid(rq, "headers", "must have at most %d bytes", HEADERS_BYTES);
    return option_seal(rq, webhook, WEBHOOK_PART_HEADERS, bb_json(rq, value, NULL), columns);
}

json_t *headers_show(struct bb_request *rq, int64_t webhook, const char *cell)
{
    json_t *headers = option_open(rq, webhook, WEBHOOK_PART_HEADERS, cell), *value;
    const char *name;

    json_object_foreach(headers, name, value)
    {
        json_t *masked = json_string(webhook_masked(rq, json_string_value(value)));

        if (json_object_set_new(headers, name, masked)) {
            json_decref(headers);
            return NULL;
        }
    }
    return headers;
}
