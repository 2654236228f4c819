#include "core/guard.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

enum seen { HOST, CONTENT_LENGTH, TRANSFER_ENCODING, AUTHORIZATION, CONTENT_TYPE, WATCHED };

static const char *const watched[WATCHED] = {"Host", "Content-Length", "Transfer-Encoding",
                                             "Authorization", "Content-Type"};

/* Names that a folded line may have grown onto; see name_grown(). */
static const char *const grown[] = {"Content-Length", "Transfer-Encoding", "Authorization",
                                    "Content-Type",   "Idempotency-Key",   "X-Forwarded-For"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct guard_verdict fine = {0, NULL, false};

static struct guard_verdict refuse(int status, const char *reason)
{
    return (struct guard_verdict){status, reason, true};
}

/* RFC 9110, 5.6.2 */
static bool is_token(const char *text)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789!#$%&'*+-.^_`|~";
    size_t length = strspn(text, allowed);

    return length && !text[length];
}

/*
 * The library appends a folded line to the *name* of the header before: "Content-Length: 5\r\n 0"
 * arrives as "Content-Length0: 5". Such a header would be lost on us while a proxy sees it. Where
 * the folded line has a colon or a space of its own, the name is no token. No registered header
 * begins with one of these names; some do with "Host", and a missing Host is refused anyway.
 */
static bool name_grown(const char *name)
{
    for (size_t i = 0; i < COUNT(grown); i++) {
        size_t length = strlen(grown[i]);

        if (!strncasecmp(name, grown[i], length) && name[length])
            return true;
    }
    return false;
}

static bool value_clean(const char *value)
{
    for (; *value; value++) {
        unsigned char c = (unsigned char)*value;

        if ((c < 0x20 && c != '\t') || c == 0x7F)
            return false;
    }
    return true;
}

/* Digits alone, within int64. */
static bool length_valid(const char *value)
{
    int64_t length = 0;

    if (!*value)
        return false;
    for (; *value; value++) {
        if (*value < '0' || *value > '9' || length > (INT64_MAX - (*value - '0')) / 10)
            return false;
        length = length * 10 + (*value - '0');
    }
    return true;
}

static struct guard_verdict check_header(const struct guard_header *header,
                                         const char *values[WATCHED])
{
    const char *value = header->value ? header->value : "";

    if (!header->name || !is_token(header->name))
        return refuse(400, "malformed header name");
    if (name_grown(header->name))
        return refuse(400, "folded header");
    if (!value_clean(value))
        return refuse(400, "control character in a header");
    for (int i = 0; i < WATCHED; i++) {
        if (strcasecmp(header->name, watched[i]))
            continue;
        if (values[i])
            return refuse(400, "header given twice");
        values[i] = value;
    }
    return fine;
}

static struct guard_verdict check_framing(const char *version, const char *values[WATCHED])
{
    const char *length = values[CONTENT_LENGTH], *encoding = values[TRANSFER_ENCODING];

    if (length && encoding)
        return refuse(400, "both Content-Length and Transfer-Encoding");
    if (encoding && strcmp(version, "HTTP/1.0") == 0)
        return refuse(400, "Transfer-Encoding with HTTP/1.0");
    if (encoding && strcasecmp(encoding, "chunked"))
        return refuse(501, "unsupported Transfer-Encoding");
    if (length && !length_valid(length))
        return refuse(400, "malformed Content-Length");
    if (values[HOST] ? !*values[HOST] : strcmp(version, "HTTP/1.0") != 0)
        return refuse(400, "no Host");
    return fine;
}

static struct guard_verdict check_target(const char *target)
{
    if (*target != '/')
        return refuse(400, "the target is not a path");
    for (; *target; target++) {
        unsigned char c = (unsigned char)*target;

        if (c <= 0x20 || c >= 0x7F || c == '\\')
            return refuse(400, "forbidden character in the target");
        if (c == '%' && target[1] == '0' && target[2] == '0')
            return refuse(400, "NUL in the target");
    }
    return fine;
}

static bool method_known(const char *method)
{
    static const char *const known[] = {"GET",    "HEAD",    "POST",  "PUT",    "PATCH",
                                        "DELETE", "OPTIONS", "TRACE", "CONNECT"};

    for (size_t i = 0; i < COUNT(known); i++) {
        if (!strcmp(method, known[i]))
            return true;
    }
    return false;
}

struct guard_verdict guard_check(const char *method, const char *version, const char *raw_target,
                                 const struct guard_header *headers, size_t count)
{
    const char *values[WATCHED] = {NULL};
    struct guard_verdict verdict = fine;

    if (count > GUARD_HEADERS_MAX)
        return refuse(400, "too many headers");
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        return refuse(505, "unsupported version of HTTP");
    for (size_t i = 0; i < count && !verdict.status; i++)
        verdict = check_header(&headers[i], values);
    if (!verdict.status)
        verdict = check_framing(version, values);
    if (!verdict.status && !method_known(method))
        verdict = refuse(501, "unknown method");
    if (!verdict.status && !strcmp(method, "CONNECT") && *raw_target != '/')
        verdict = refuse(501, "this is no proxy");
    return verdict.status ? verdict : check_target(raw_target);
}
