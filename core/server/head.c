#include "core/server/head.h"

#include <string.h>
#include <strings.h>

enum known {
    HOST,
    CONTENT_LENGTH,
    TRANSFER_ENCODING,
    AUTHORIZATION,
    CONTENT_TYPE,
    IDEMPOTENCY_KEY, /* those up to here may occur at most once */
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

void head_begin(struct head_reading *reading)
{
    reading->head = (struct head){.length = -1, .minor = 1};
    reading->at = reading->line = 0;
    reading->seen = 0;
    reading->absolute = false;
}

static int refuse(struct head_reading *reading, int status, const char *reason)
{
    head_refuse(reading, status, reason);
    return -1;
}

/*
 * Finds the end of the line. Returns 1: found, *end is the position of its CR; 0: not yet; -1:
 * refused.
 */
static int find_end(struct head_reading *reading, const char *text, size_t length, size_t *end)
{
    size_t at = reading->at + head_value_run(text + reading->at, length - reading->at);

    reading->at = at;
    if (at == length || (text[at] == '\r' && at + 1 == length))
        return 0;
    if (text[at] == '\n')
        return refuse(reading, 400, "A line of the head ends without a carriage return");
    if (text[at] != '\r')
        return refuse(reading, 400, "A control character is in the head");
    if (text[at + 1] != '\n')
        return refuse(reading, 400, "A carriage return in the head does not end a line");
    *end = at;
    reading->at = at + 2;
    return 1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

const char *head_field_split(const char *text, size_t from, size_t to, struct head_field *field)
{
    if (is_blank(text[from]))
        return "A line of the head is folded";
    size_t colon = from + head_token_run(text + from, to - from);

    if (colon == from || colon == to || text[colon] != ':')
        return "A field of the head has no valid name";
    size_t start = colon + 1, end = to;

    while (start < end && is_blank(text[start]))
        start++;
    while (end > start && is_blank(text[end - 1]))
        end--;
    *field = (struct head_field){.name = (uint16_t)from,
                                 .name_length = (uint16_t)(colon - from),
                                 .value = (uint16_t)start,
                                 .value_length = (uint16_t)(end - start)};
    return NULL;
}

static enum known field_known(const char *name, size_t length)
{
    for (enum known i = HOST; i < KNOWN; i++) {
        if (length == known_fields[i].length && !strncasecmp(name, known_fields[i].name, length))
            return i;
    }
    return KNOWN;
}

/* Accepts digits only. */
static int take_length(struct head_reading *reading, const char *value)
{
    int64_t length = 0;

    for (const char *at = value; *at; at++) {
        if (*at < '0' || *at > '9')
            return refuse(reading, 400, "Content-Length is malformed");
    }
    if (!*value)
        return refuse(reading, 400, "Content-Length is malformed");
    for (; *value; value++) {
        if (length > (INT64_MAX - (*value - '0')) / 10)
            return refuse(reading, 413, "The body is too large");
        length = length * 10 + (*value - '0');
    }
    reading->head.length = length;
    return 0;
}

static int take_encoding(struct head_reading *reading, const char *value)
{
    if (strcasecmp(value, "chunked") != 0)
        return refuse(reading, 501, "This Transfer-Encoding is not supported");
    reading->head.chunked = true;
    return 0;
}

static void take_connection(struct head *head, const char *value)
{
    while (*value) {
        size_t length = strcspn(value, ","), word = length;

        while (word && is_blank(value[word - 1]))
            word--;
        head->closes = head->closes || (word == 5 && !strncasecmp(value, "close", word));
        head->keeps = head->keeps || (word == 10 && !strncasecmp(value, "keep-alive", word));
        value += length;
        value += strspn(value, ", \t");
    }
}

/* Handles the fields that the host itself uses. */
static int take_known(struct head_reading *reading, enum known known, const char *value)
{
    if (known <= IDEMPOTENCY_KEY && reading->seen & 1u << known)
        return refuse(reading, 400, "A field of the head is given twice");
    reading->seen |= 1u << known;
    switch (known) {
    case HOST:
        if (!*value && !reading->absolute)
            return 0; /* from a client that has no host name */
        if (!head_host_valid(value, strlen(value)))
            return refuse(reading, 400, "Host is not valid");
        return 0;
    case CONTENT_LENGTH:
        return take_length(reading, value);
    case TRANSFER_ENCODING:
        return take_encoding(reading, value);
    case CONNECTION:
        take_connection(&reading->head, value);
        return 0;
    case EXPECT:
        reading->head.expects = !strcasecmp(value, "100-continue");
        return 0;
    default:
        return 0;
    }
}

static int take_field(struct head_reading *reading, char *text, size_t end)
{
    struct head *head = &reading->head;
    struct head_field field;
    const char *reason = head_field_split(text, reading->line, end, &field);

    if (reason)
        return refuse(reading, 400, reason);
    if (head->count == HEAD_FIELDS_MAX)
        return refuse(reading, 431, "The head has too many fields");
    text[field.name + field.name_length] = '\0';
    text[field.value + field.value_length] = '\0';
    reading->fields[head->count++] = field;
    enum known known = field_known(text + field.name, field.name_length);

    return known == KNOWN ? 0 : take_known(reading, known, text + field.value);
}

/* At the empty line: checks that need the whole head. */
static int finish(struct head_reading *reading)
{
    struct head *head = &reading->head;

    if (head->chunked && head->length >= 0)
        return refuse(reading, 400, "Both Content-Length and Transfer-Encoding are given");
    if (head->chunked && !head->minor)
        return refuse(reading, 400, "Transfer-Encoding is given with HTTP/1.0");
    if (head->minor && !(reading->seen & 1u << HOST))
        return refuse(reading, 400, "Host is missing");
    head->expects = head->expects && head->minor && (head->chunked || head->length > 0);
    return 1;
}

/*
 * Processes a complete line, whose CR is at `end`. Returns 0: the next line follows; 1: it was the
 * last; -1: refused.
 */
static int take_line(struct head_reading *reading, char *text, size_t end)
{
    if (end == reading->line)
        return reading->head.split ? finish(reading) : 0; /* some clients send empty lines first */
    text[end] = '\0';
    return reading->head.split ? take_field(reading, text, end)
                               : head_request_line(reading, text, reading->line, end);
}

enum head_state head_read(struct head_reading *reading, char *text, size_t length)
{
    size_t most = length < HEAD_BYTES_MAX ? length : HEAD_BYTES_MAX, end;
    int found;

    while ((found = find_end(reading, text, most, &end)) > 0) {
        found = take_line(reading, text, end);
        if (found)
            break;
        reading->line = reading->at;
    }
    if (found < 0)
        return HEAD_REFUSED;
    if (found)
        return HEAD_WHOLE;
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

/* Returns the index of the first field with this name from `at` on; head->count: there is none. */
static size_t find_field(const struct head *head, const char *name, size_t at)
{
    size_t length = strlen(name);

    for (; at < head->count; at++) {
        const struct head_field *field = &head->fields[at];

        if (field->name_length == length && !strcasecmp(head->text + field->name, name))
            break;
    }
    return at;
}

const char *head_value(const struct head *head, const char *name)
{
    size_t at = find_field(head, name, 0);

    return at < head->count ? head->text + head->fields[at].value : NULL;
}

const char *head_sole_value(const struct head *head, const char *name)
{
    size_t at = find_field(head, name, 0);

    if (at == head->count || find_field(head, name, at + 1) < head->count)
        return NULL;
    return head->text + head->fields[at].value;
}
