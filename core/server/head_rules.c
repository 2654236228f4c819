/* The syntax of a head: allowed characters, the request line, hosts. */
#include <string.h>
#include <strings.h>

#include "core/server/head.h"

enum { TOKEN = 1, VALUE = 2, TARGET = 4, NAME = 8 /* of a host */ };

#define LETTERS (TOKEN | VALUE | TARGET | NAME)

/* clang-format off */
static const uint8_t classes[256] = {
    ['\t'] = VALUE, [' '] = VALUE,
    ['!'] = LETTERS, ['"'] = VALUE | TARGET, ['#'] = TOKEN | VALUE, ['$'] = LETTERS,
    ['%'] = TOKEN | VALUE | TARGET, ['&'] = LETTERS, ['\''] = LETTERS,
    ['('] = VALUE | TARGET | NAME, [')'] = VALUE | TARGET | NAME, ['*'] = LETTERS,
    ['+'] = LETTERS, [','] = VALUE | TARGET, ['-'] = LETTERS, ['.'] = LETTERS,
    ['/'] = VALUE | TARGET, ['0' ... '9'] = LETTERS, [':'] = VALUE | TARGET,
    [';'] = VALUE | TARGET | NAME, ['<'] = VALUE | TARGET, ['='] = VALUE | TARGET | NAME,
    ['>'] = VALUE | TARGET, ['?'] = VALUE | TARGET, ['@'] = VALUE | TARGET,
    ['A' ... 'Z'] = LETTERS, ['['] = VALUE | TARGET, ['\\'] = VALUE, [']'] = VALUE | TARGET,
    ['^'] = TOKEN | VALUE | TARGET, ['_'] = LETTERS, ['`'] = TOKEN | VALUE | TARGET,
    ['a' ... 'z'] = LETTERS, ['{'] = VALUE | TARGET, ['|'] = TOKEN | VALUE | TARGET,
    ['}'] = VALUE | TARGET, ['~'] = LETTERS, [0x80 ... 0xFF] = VALUE,
};
/* clang-format on */

size_t head_token_run(const char *text, size_t length)
{
    size_t at = 0;

    while (at < length && classes[(unsigned char)text[at]] & TOKEN)
        at++;
    return at;
}

/* Whether none of eight bytes is less than a blank, or DEL. The result "false" may be wrong. */
static bool is_plain(const char *text)
{
    const uint64_t ones = UINT64_MAX / 255, highest = ones << 7;
    uint64_t word, deletes;

    memcpy(&word, text, sizeof word);
    deletes = word ^ ones * 0x7F;
    return !(((word - ones * ' ') & ~word) & highest) && !(((deletes - ones) & ~deletes) & highest);
}

size_t head_value_run(const char *text, size_t length)
{
    size_t at = 0;

    for (;;) {
        while (length - at >= sizeof(uint64_t) && is_plain(text + at))
            at += sizeof(uint64_t);
        if (at == length || !(classes[(unsigned char)text[at]] & VALUE))
            return at;
        at++;
    }
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Accepts ":port" with at most five digits, or nothing. */
static bool port_valid(const char *at, const char *end)
{
    unsigned port = 0;

    if (at == end)
        return true;
    if (*at++ != ':' || end - at > 5)
        return false;
    for (; at < end; at++) {
        if (!is_digit(*at))
            return false;
        port = port * 10 + (unsigned)(*at - '0');
    }
    return port <= 65535;
}

/* After "[": skips an IPv6 address up to "]"; NULL: it is not an address. */
static const char *skip_address(const char *at, const char *end)
{
    const char *start = at;

    while (at < end && (is_hex(*at) || *at == ':' || *at == '.'))
        at++;
    return at - start >= 2 && at < end && *at == ']' ? at + 1 : NULL;
}

static const char *skip_name(const char *at, const char *end)
{
    for (; at < end && *at != ':'; at++) {
        if (*at == '%' && end - at > 2 && is_hex(at[1]) && is_hex(at[2]))
            at += 2;
        else if (!(classes[(unsigned char)*at] & NAME))
            return NULL;
    }
    return at;
}

bool head_host_valid(const char *host, size_t length)
{
    const char *end = host + length;
    const char *at = length && *host == '[' ? skip_address(host + 1, end) : skip_name(host, end);

    return at && at > host && port_valid(at, end);
}

static int refuse(struct head_reading *reading, int status, const char *reason)
{
    head_refuse(reading, status, reason);
    return -1;
}

static bool method_known(const char *method)
{
    static const char *const known[] = {"GET",    "HEAD",    "POST",  "PUT",     "PATCH",
                                        "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY"};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (!strcmp(method, known[i]))
            return true;
    }
    return false;
}

/* "HTTP/1.1" or "HTTP/1.0" */
static int take_version(struct head_reading *reading, const char *version)
{
    if (strncmp(version, "HTTP/", 5) != 0 || !is_digit(version[5]) || version[6] != '.' ||
        !is_digit(version[7]) || version[8])
        return refuse(reading, 400, "The request line is malformed");
    if (version[5] != '1' || version[7] > '1')
        return refuse(reading, 505, "This version of HTTP is not supported");
    reading->head.minor = version[7] == '1';
    return 0;
}

static int check_chars(struct head_reading *reading, const char *target)
{
    for (; *target; target++) {
        if (!(classes[(unsigned char)*target] & TARGET))
            return refuse(reading, 400, "The target has a character that it may not have");
        if (*target == '%' && target[1] == '0' && target[2] == '0')
            return refuse(reading, 400, "The target has a NUL");
    }
    return 0;
}

/*
 * Handles "http://host:port/path", the form sent to proxies. The host is checked like a Host field;
 * the target is the rest, preceded by '/', for which there is room.
 */
static int take_absolute(struct head_reading *reading, char *target, size_t scheme)
{
    char *host = target + scheme;
    size_t length = strcspn(host, "/?");
    char *path = host + length;

    if (!head_host_valid(host, length))
        return refuse(reading, 400, "The host in the target is not valid");
    reading->absolute = true;
    if (*path != '/')
        *--path = '/';
    reading->head.target = (uint16_t)(reading->head.target + (path - target));
    return 0;
}

static int take_target(struct head_reading *reading, const char *method, char *target)
{
    if (check_chars(reading, target))
        return -1;
    if (*target == '/' || (!strcmp(target, "*") && !strcmp(method, "OPTIONS")))
        return 0;
    if (!strcmp(method, "CONNECT"))
        return refuse(reading, 501, "This server is not a proxy");
    if (!strncasecmp(target, "http://", 7))
        return take_absolute(reading, target, 7);
    if (!strncasecmp(target, "https://", 8))
        return take_absolute(reading, target, 8);
    return refuse(reading, 400, "The target is not a path");
}

int head_request_line(struct head_reading *reading, char *text, size_t from, size_t to)
{
    size_t space = from + head_token_run(text + from, to - from), second;

    for (second = space + 1; second < to && text[second] != ' ';)
        second++;
    if (space == from || text[space] != ' ' || second >= to || second == space + 1)
        return refuse(reading, 400, "The request line is malformed");
    text[space] = text[second] = '\0';
    reading->head.method = (uint16_t)from;
    reading->head.target = (uint16_t)(space + 1);
    reading->head.split = true;
    if (take_version(reading, text + second + 1))
        return -1;
    if (!method_known(text + from))
        return refuse(reading, 501, "This method is not known");
    return take_target(reading, text + from, text + space + 1);
}

enum head_state head_refuse(struct head_reading *reading, int status, const char *reason)
{
    reading->head.status = status;
    reading->head.reason = reason;
    return HEAD_REFUSED;
}
