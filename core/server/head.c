#include "core/server/head.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* ---- characters ---- */

enum { TOKEN = 1, VALUE = 2, TARGET = 4, NAME = 8 /* name of a host */ };

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

/* Returns whether none of eight bytes is DEL or less than ' '. */
static bool head_is_plain(const char *text)
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
        while (length - at >= sizeof(uint64_t) && head_is_plain(text + at))
            at += sizeof(uint64_t);
        if (at == length || !(classes[(unsigned char)text[at]] & VALUE))
            return at;
        at++;
    }
}

static bool head_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool head_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Returns whether a text is a host with an optional port, as in Host and absolute targets. */
static bool head_is_host(const char *host, size_t length)
{
    const char *at = host, *end = host + length;
    unsigned port = 0;

    if (length && *host == '[') { /* an IPv6 address */
        for (at++; at < end && (isxdigit((unsigned char)*at) || *at == ':' || *at == '.');)
            at++;
        if (at - host < 3 || at == end || *at++ != ']')
            return false;
    }
    for (; *host != '[' && at < end && *at != ':'; at++) {
        if (*at == '%' && end - at > 2 && isxdigit((unsigned char)at[1]) &&
            isxdigit((unsigned char)at[2]))
            at += 2;
        else if (!(classes[(unsigned char)*at] & NAME))
            return false;
    }
    if (at == host || at == end)
        return at > host;
    if (*at++ != ':' || end - at > 5)
        return false;
    for (; at < end; at++) {
        if (!head_is_digit(*at))
            return false;
        port = port * 10 + (unsigned)(*at - '0');
    }
    return port <= 65535;
}

/* ---- the request line ---- */

enum head_state head_refuse(struct head_reading *reading, int status, const char *reason)
{
    reading->head.status = status;
    reading->head.reason = reason;
    return HEAD_REFUSED;
}

static int head_take_request_line(struct head_reading *reading, char *text, size_t from, size_t to)
{
    static const char *const known[] = {"GET",    "HEAD",    "POST",  "PUT",     "PATCH",
                                        "DELETE", "OPTIONS", "TRACE", "CONNECT", "QUERY"};
    const char *method = text + from;
    size_t space = from + head_token_run(method, to - from), second, i = 0;

    for (second = space + 1; second < to && text[second] != ' ';)
        second++;
    if (space == from || text[space] != ' ' || second >= to || second == space + 1)
        return head_refuse(reading, 400, "The request line is malformed");
    text[space] = text[second] = '\0';
    reading->head.method = (uint16_t)from;
    reading->head.target = (uint16_t)(space + 1);
    reading->head.split = true;
    const char *version = text + second + 1;

    if (strncmp(version, "HTTP/", 5) != 0 || !head_is_digit(version[5]) || version[6] != '.' ||
        !head_is_digit(version[7]) || version[8])
        return head_refuse(reading, 400, "The request line is malformed");
    if (version[5] != '1' || version[7] > '1')
        return head_refuse(reading, 505, "This version of HTTP is not supported");
    reading->head.minor = version[7] == '1';
    while (i < sizeof known / sizeof *known && strcmp(method, known[i]) != 0)
        i++;
    if (i == sizeof known / sizeof *known)
        return head_refuse(reading, 501, "This method is not supported");
    char *target = text + space + 1;

    for (const char *at = target; *at; at++) {
        if (!(classes[(unsigned char)*at] & TARGET))
            return head_refuse(reading, 400, "The target contains a character that is not allowed");
        if (*at == '%' && at[1] == '0' && at[2] == '0')
            return head_refuse(reading, 400, "The target contains a NUL");
    }
    /* Accepts a path, "*" with OPTIONS, or "http://host:port/path", the form sent to proxies.
     * In the last form, checks the host like a Host field. Its path becomes the target; if there is
     * no path, writes a '/' before the query. */
    if (*target == '/' || (!strcmp(target, "*") && !strcmp(method, "OPTIONS")))
        return 0;
    if (!strcmp(method, "CONNECT"))
        return head_refuse(reading, 501, "This server is not a proxy");
    if (strncasecmp(target, "http://", 7) != 0 && strncasecmp(target, "https://", 8) != 0)
        return head_refuse(reading, 400, "The target is not a path");
    char *host = strchr(target, '/') + 2;
    size_t length = strcspn(host, "/?");
    char *path = host + length;

    if (!head_is_host(host, length))
        return head_refuse(reading, 400, "The host in the target is not valid");
    reading->absolute = true;
    if (*path != '/')
        *--path = '/';
    reading->head.target = (uint16_t)(reading->head.target + (path - target));
    return 0;
}

/* ---- fields ---- */

enum known {
    HOST,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    AUTHORIZATION,
    CONTENT_TYPE,
    IDEMPOTENCY_KEY, /* fields up to here may occur at most once */
    CONNECTION,
    EXPECT,
    KNOWN
};

static const struct {
    const char *name;
    size_t length;
} known_fields[KNOWN] = {
    [HOST] = {"Host", 4},
    [CONTENT_LENGTH] = {"Content-Length", 14},
    [TRANSFER_ENCODING] = {"Transfer-Encoding", 17},
    [AUTHORIZATION] = {"Authorization", 13},
    [CONTENT_TYPE] = {"Content-Type", 12},
    [IDEMPOTENCY_KEY] = {"Idempotency-Key", 15},
    [CONNECTION] = {"Connection", 10},
    [EXPECT] = {"Expect", 6},
};

const char *head_field_split(const char *text, size_t from, size_t to, struct head_field *field)
{
    if (head_is_blank(text[from]))
        return "A line of the head is folded";
    size_t colon = from + head_token_run(text + from, to - from);

    if (colon == from || colon == to || text[colon] != ':')
        return "A header has an invalid name";
    size_t start = colon + 1, end = to;

    while (start < end && head_is_blank(text[start]))
        start++;
    while (end > start && head_is_blank(text[end - 1]))
        end--;
    *field = (struct head_field){.name = (uint16_t)from,
                                 .name_length = (uint16_t)(colon - from),
                                 .value = (uint16_t)start,
                                 .value_length = (uint16_t)(end - start)};
    return NULL;
}

/* Splits and stores a field; evaluates the fields of enum known. Returns 0 or HEAD_REFUSED. */
static int head_take_field(struct head_reading *reading, char *text, size_t end)
{
    struct head *head = &reading->head;
    struct head_field field;
    const char *reason = head_field_split(text, reading->line, end, &field);
    enum known known = HOST;
    int64_t bytes = 0;

    if (reason)
        return head_refuse(reading, 400, reason);
    if (head->count == HEAD_FIELDS_MAX)
        return head_refuse(reading, 431, "The head has too many headers");
    const char *name = text + field.name, *value = text + field.value;

    text[field.name + field.name_length] = '\0';
    text[field.value + field.value_length] = '\0';
    reading->fields[head->count++] = field;
    while (known < KNOWN && (field.name_length != known_fields[known].length ||
                             strcasecmp(name, known_fields[known].name) != 0))
        known++;
    if (known <= IDEMPOTENCY_KEY && reading->seen & 1u << known)
        return head_refuse(reading, 400, "A header that may occur only once occurs twice");
    reading->seen |= 1u << known;
    switch (known) {
    case HOST:
        if (!*value && !reading->absolute)
            return 0; /* sent by a client whose URL has no host name */
        return head_is_host(value, strlen(value)) ? 0
                                                  : head_refuse(reading, 400, "Host is not valid");
    case CONTENT_LENGTH:
        if (!*value || value[strspn(value, "0123456789")])
            return head_refuse(reading, 400, "Content-Length is malformed");
        for (; *value; value++) {
            if (bytes > (INT64_MAX - (*value - '0')) / 10)
                return head_refuse(reading, 413, "The body is too large");
            bytes = bytes * 10 + (*value - '0');
        }
        head->length = bytes;
        return 0;
    case TRANSFER_ENCODING:
        if (strcasecmp(value, "chunked") != 0)
            return head_refuse(reading, 501, "This Transfer-Encoding is not supported");
        head->chunked = true;
        return 0;
    case CONNECTION:
        while (*value) {
            size_t length = strcspn(value, ","), word = length;

            while (word && head_is_blank(value[word - 1]))
                word--;
            head->closes = head->closes || (word == 5 && !strncasecmp(value, "close", word));
            head->keeps = head->keeps || (word == 10 && !strncasecmp(value, "keep-alive", word));
            value += length;
            value += strspn(value, ", \t");
        }
        return 0;
    case EXPECT:
        head->expects = !strcasecmp(value, "100-continue");
        return 0;
    default:
        return 0;
    }
}

/* ---- the head ---- */

void head_begin(struct head_reading *reading)
{
    reading->head = (struct head){.length = -1, .minor = 1};
    reading->at = reading->line = 0;
    reading->seen = 0;
    reading->absolute = false;
}

/* Finds the end of a line. Returns 1 with *end at its CR, 0 if incomplete, or HEAD_REFUSED. */
static int head_find_end(struct head_reading *reading, const char *text, size_t length, size_t *end)
{
    size_t at = reading->at + head_value_run(text + reading->at, length - reading->at);

    reading->at = at;
    if (at == length || (text[at] == '\r' && at + 1 == length))
        return 0;
    if (text[at] == '\n')
        return head_refuse(reading, 400, "A line of the head ends without a carriage return");
    if (text[at] != '\r')
        return head_refuse(reading, 400, "The head contains a control character");
    if (text[at + 1] != '\n')
        return head_refuse(reading, 400, "A carriage return in the head does not end a line");
    *end = at;
    reading->at = at + 2;
    return 1;
}

/* Makes the checks that need the whole head. Returns HEAD_WHOLE or HEAD_REFUSED. */
static int head_finish(struct head_reading *reading)
{
    struct head *head = &reading->head;

    if (head->chunked && head->length >= 0)
        return head_refuse(reading, 400, "Both Content-Length and Transfer-Encoding are given");
    if (head->chunked && !head->minor)
        return head_refuse(reading, 400, "Transfer-Encoding is given with HTTP/1.0");
    if (head->minor && !(reading->seen & 1u << HOST))
        return head_refuse(reading, 400, "Host is missing");
    head->expects = head->expects && head->minor && (head->chunked || head->length > 0);
    return 1;
}

enum head_state head_read(struct head_reading *reading, char *text, size_t length)
{
    size_t most = length < HEAD_BYTES_MAX ? length : HEAD_BYTES_MAX, end;
    int found;

    while ((found = head_find_end(reading, text, most, &end)) > 0) {
        if (end > reading->line) {
            text[end] = '\0';
            found = reading->head.split ? head_take_field(reading, text, end)
                                        : head_take_request_line(reading, text, reading->line, end);
        } else {
            found = reading->head.split ? head_finish(reading) : 0; /* ignores empty first lines */
        }
        if (found)
            break;
        reading->line = reading->at;
    }
    if (found)
        return (enum head_state)found;
    if (length < HEAD_BYTES_MAX)
        return HEAD_PARTIAL;
    return reading->head.split ? head_refuse(reading, 431, "The head is too large")
                               : head_refuse(reading, 414, "The target is too long");
}

int head_keep(const struct head_reading *reading, const char *text, struct arena *arena,
              struct head *into)
{
    size_t fields = reading->head.count * sizeof *into->fields;

    *into = reading->head;
    into->text = arena_text(arena, text, reading->at);
    into->fields = arena_alloc(arena, fields);
    if (!into->text || !into->fields)
        return -1;
    memcpy(into->fields, reading->fields, fields);
    return 0;
}

const char *head_value(const struct head *head, const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < head->count; i++) {
        const struct head_field *field = &head->fields[i];

        if (field->name_length == length && !strcasecmp(head->text + field->name, name))
            return head->text + field->value;
    }
    return NULL;
}
