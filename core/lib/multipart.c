#include "core/lib/multipart.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/text.h"

/* ---- header lines and their parameters ---- */

#define TOKEN_ENDS " \t\r\n;=\"(),/:<>?@[\\]{}"

static char *skip_blank(char *at)
{
    return at + strspn(at, " \t");
}

/*
 * Unescapes a quoted string in place; *at is after the opening quote. A backslash escapes a quote
 * or a backslash and is literal otherwise, because old clients send paths. A backslash before the
 * last quote is literal, too. Returns NULL if there is no closing quote.
 */
static char *quoted(char **at)
{
    char *from = *at, *start = from, *to = from;

    for (; *from && *from != '"'; from++) {
        bool escapes =
            *from == '\\' && (from[1] == '\\' || (from[1] == '"' && strchr(from + 2, '"')));

        from += escapes;
        *to++ = *from;
    }
    if (!*from)
        return NULL;
    *at = from + 1;
    *to = '\0';
    return start;
}

int multipart_parameter(char **at, char **name, char **value)
{
    char *equals, *end;

    *at = skip_blank(*at);
    while (**at == ';')
        *at = skip_blank(*at + 1);
    if (!**at)
        return 0;
    *name = *at;
    equals = *at + strcspn(*at, TOKEN_ENDS);
    if (equals == *at || *equals != '=')
        return -1;
    *equals = '\0';
    for (char *byte = *name; *byte; byte++)
        *byte = (char)tolower((unsigned char)*byte);
    *at = equals + 1;
    if (**at == '"') {
        (*at)++;
        *value = quoted(at);
        *at = *value ? skip_blank(*at) : *at;
        return *value && (!**at || **at == ';') ? 1 : -1;
    }
    *value = *at;
    end = *at + strcspn(*at, " \t;");
    *at = skip_blank(end);
    if (end == *value || (**at && **at != ';'))
        return -1;
    if (*end) { /* the text after the terminator that is about to be overwritten */
        *at += **at == ';';
        *end = '\0';
    }
    return 1;
}

static bool boundary_fits(const char *boundary)
{
    static const char more[] = "'()+_,-./:=? ";
    size_t length = strlen(boundary);

    if (!length || length > MULTIPART_BOUNDARY_MAX || boundary[length - 1] == ' ')
        return false;
    for (; *boundary; boundary++)
        if (!isalnum((unsigned char)*boundary) && !strchr(more, *boundary))
            return false;
    return true;
}

/* Returns 1, or -1 if the boundary is missing, duplicate or malformed. */
static int find_boundary(char *at, char boundary[MULTIPART_BOUNDARY_MAX + 1])
{
    char *name, *value;
    int more, found = 0;

    while ((more = multipart_parameter(&at, &name, &value)) > 0) {
        if (strcmp(name, "boundary") != 0)
            continue;
        if (found++ || !boundary_fits(value))
            return -1;
        memcpy(boundary, value, strlen(value) + 1);
    }
    return more < 0 || !found ? -1 : 1;
}

int multipart_boundary(const char *content_type, char boundary[MULTIPART_BOUNDARY_MAX + 1])
{
    static const char type[] = "multipart/form-data";
    size_t length = sizeof type - 1;

    if (strncasecmp(content_type, type, length) != 0)
        return 0;
    if (content_type[length] && !strchr("; \t", content_type[length]))
        return 0;
    char *copy = strdup(content_type + length);
    int found = copy ? find_boundary(copy, boundary) : -2;

    free(copy);
    return found;
}

/* Detects C0, DEL and C1 in UTF-8. */
static bool has_control_characters(const char *text)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text, next = (unsigned char)text[1];

        if (byte < 0x20 || byte == 0x7f || (byte == 0xc2 && next < 0xa0))
            return true;
    }
    return false;
}

/*
 * Decodes filename*=UTF-8''%41 in place. Returns NULL if it has another form, is not UTF-8, or
 * contains control characters; it is ignored then.
 */
static char *extended(char *value)
{
    char *language = strchr(value, '\'');
    char *text = language ? strchr(language + 1, '\'') : NULL, *to;

    if (!text || strncasecmp(value, "utf-8'", 6) != 0)
        return NULL;
    to = ++text;
    for (const char *from = text; *from; from++) {
        unsigned char byte = (unsigned char)*from;

        if (byte == '%') {
            if (text_hex_decode((char[]){from[1], from[1] ? from[2] : '\0', '\0'}, &byte, 1) ||
                !byte)
                return NULL;
            from += 2;
        }
        *to++ = (char)byte;
    }
    *to = '\0';
    return text_utf8(text, strlen(text)) && !has_control_characters(text) ? text : NULL;
}

struct head {
    struct multipart_part *part;
    char *plain, *extended; /* file names */
    int dispositions;
};

static const char *disposition(struct head *head, char *value)
{
    size_t length = strcspn(value, " \t;");
    char *at = value + length, *name, *text;
    int more;

    if (head->dispositions++)
        return "a part has two Content-Disposition headers";
    if (length != 9 || strncasecmp(value, "form-data", 9) != 0)
        return "the Content-Disposition of a part is not form-data";
    while ((more = multipart_parameter(&at, &name, &text)) > 0) {
        if (!strcmp(name, "name") && !head->part->name)
            head->part->name = text;
        else if (!strcmp(name, "filename") && !head->plain)
            head->plain = text;
        else if (!strcmp(name, "filename*") && !head->extended)
            head->extended = extended(text);
        else if (!strcmp(name, "name") || !strcmp(name, "filename"))
            return "the Content-Disposition of a part names something twice";
    }
    return more < 0 ? "the Content-Disposition of a part is malformed" : NULL;
}

static const char *header(struct head *head, const char *name, char *value)
{
    if (!strcasecmp(name, "Content-Disposition"))
        return disposition(head, value);
    if (!strcasecmp(name, "Content-Type")) {
        if (!strncasecmp(value, "multipart/", 10))
            return "a part is multipart itself";
        head->part->type = value;
    }
    if (!strcasecmp(name, "Content-Transfer-Encoding") && strcasecmp(value, "binary") != 0 &&
        strcasecmp(value, "8bit") != 0 && strcasecmp(value, "7bit") != 0)
        return "a part has a transfer encoding";
    return NULL;
}

/* Takes the next line, unfolded. NULL: no more lines. */
static char *next_line(char **lines)
{
    char *line = *lines, *end = strstr(line, "\r\n");

    while (end && (end[2] == ' ' || end[2] == '\t')) {
        memset(end, ' ', 2);
        end = strstr(end, "\r\n");
    }
    if (!end || end == line)
        return NULL;
    *end = '\0';
    *lines = end + 2;
    return line;
}

static bool has_controls(const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < 0x20 && *text != '\t') || *text == 0x7f)
            return true;
    return false;
}

/* Parses the header lines of a part. Returns NULL, or the problem. */
static const char *multipart_head(char *lines, struct multipart_part *part)
{
    struct head head = {.part = part};
    const char *problem = NULL;
    char *line;

    *part = (struct multipart_part){.name = NULL};
    while (!problem && (line = next_line(&lines))) {
        char *colon = strchr(line, ':');

        if (!colon || colon == line || strcspn(line, TOKEN_ENDS) != (size_t)(colon - line))
            return "a header line of a part is malformed";
        if (has_controls(line))
            return "a header line of a part has control characters";
        *colon = '\0';
        char *value = skip_blank(colon + 1);

        for (size_t end = strlen(value); end && strchr(" \t", value[end - 1]);)
            value[--end] = '\0';
        problem = header(&head, line, value);
    }
    part->filename = head.extended ? head.extended : head.plain;
    if (!problem && (!part->name || !*part->name))
        problem = "a part has no name";
    return problem;
}

/* ---- the stream ---- */

enum state {
    DATA,      /* inside a part or the preamble */
    DELIMITER, /* `matched` bytes of the delimiter were seen */
    BEHIND,    /* the whole delimiter was seen */
    DASH,      /* followed by a '-' */
    PADDING,   /* followed by white space */
    LINE_END,  /* followed by a CR */
    HEADERS,
    EPILOGUE
};

/* The first boundary can be at the very beginning, without a preceding CR LF. */
int multipart_init(struct multipart *multipart, const char *boundary,
                   const struct multipart_calls *calls, void *arg)
{
    size_t length = strlen(boundary);

    *multipart = (struct multipart){.calls = calls, .arg = arg, .state = DELIMITER};
    multipart->matched = multipart->implied = 2;
    if (length > MULTIPART_BOUNDARY_MAX)
        return -1;
    memcpy(multipart->delimiter, "\r\n--", 4);
    memcpy(multipart->delimiter + 4, boundary, length);
    multipart->delimiter_length = length + 4;
    multipart->headers = malloc(MULTIPART_HEADERS_MAX);
    return multipart->headers ? 0 : -1;
}

void multipart_free(struct multipart *multipart)
{
    free(multipart->headers);
    multipart->headers = NULL;
}

bool multipart_complete(const struct multipart *multipart)
{
    return multipart->state == EPILOGUE;
}

static int refuse(struct multipart *multipart, const char *problem)
{
    multipart->problem = problem;
    return -1;
}

static int data(struct multipart *multipart, const char *bytes, size_t length)
{
    if (!multipart->in_part || !length)
        return 0;
    return multipart->calls->data(multipart->arg, bytes, length);
}

/* The bytes that looked like a delimiter, and those after it, are data. */
static int give_back(struct multipart *multipart)
{
    size_t implied = multipart->implied, matched = multipart->matched;
    size_t held = multipart->held_length;

    multipart->state = DATA;
    multipart->matched = multipart->implied = 0;
    multipart->held_length = 0;
    return data(multipart, multipart->delimiter + implied, matched - implied) ||
                   data(multipart, multipart->held, held)
               ? -1
               : 0;
}

/* A part ends only when its delimiter is confirmed. */
static int end_part(struct multipart *multipart)
{
    bool was = multipart->in_part;

    multipart->in_part = false;
    multipart->matched = multipart->implied = 0;
    multipart->held_length = 0;
    return was ? multipart->calls->end(multipart->arg) : 0;
}

static int hold(struct multipart *multipart, char byte, enum state next)
{
    if (multipart->held_length == sizeof multipart->held)
        return refuse(multipart, "a boundary is followed by too much white space");
    multipart->held[multipart->held_length++] = byte;
    multipart->state = (int)next;
    return 0;
}

/*
 * Handles a byte after the delimiter, or after '-', white space or CR. *taken: the byte was
 * consumed.
 */
static int behind(struct multipart *multipart, char byte, bool *taken)
{
    bool blank = byte == ' ' || byte == '\t';

    *taken = true;
    if (multipart->state == LINE_END && byte == '\n') {
        multipart->state = HEADERS;
        multipart->headers_length = 0;
        multipart->line_start = 0;
        return end_part(multipart);
    }
    if (multipart->state == DASH && byte == '-') {
        multipart->state = EPILOGUE;
        return multipart->has_part ? end_part(multipart) : refuse(multipart, "there is no part");
    }
    if (multipart->state == BEHIND && byte == '-')
        return hold(multipart, byte, DASH);
    if ((multipart->state == BEHIND || multipart->state == PADDING) && blank)
        return hold(multipart, byte, PADDING);
    if ((multipart->state == BEHIND || multipart->state == PADDING) && byte == '\r') {
        multipart->state = LINE_END;
        return 0;
    }
    bool carriage_return = multipart->state == LINE_END;

    *taken = false;
    if (give_back(multipart))
        return -1;
    if (carriage_return) { /* it may begin the delimiter */
        multipart->state = DELIMITER;
        multipart->matched = 1;
    }
    return 0;
}

/*
 * Only the first byte of a delimiter is CR, so a partial match that fails cannot contain the start
 * of another one.
 */
static int match(struct multipart *multipart, char byte, bool *taken)
{
    *taken = byte == multipart->delimiter[multipart->matched];
    if (!*taken)
        return give_back(multipart);
    if (++multipart->matched == multipart->delimiter_length)
        multipart->state = BEHIND;
    return 0;
}

/* Finds a possible delimiter; NULL if there is none. A CR alone is common in binary data. */
static const char *find_delimiter(const struct multipart *multipart, const char *at,
                                  const char *end)
{
    while (at < end && (at = memchr(at, '\r', (size_t)(end - at)))) {
        size_t left = (size_t)(end - at);
        size_t length = left < multipart->delimiter_length ? left : multipart->delimiter_length;

        if (!memcmp(at, multipart->delimiter, length))
            return at;
        at++;
    }
    return NULL;
}

/* Passes data up to a possible delimiter. Returns the number of bytes consumed, or -1. */
static ptrdiff_t scan(struct multipart *multipart, const char *bytes, size_t length)
{
    const char *found = find_delimiter(multipart, bytes, bytes + length);
    size_t plain = found ? (size_t)(found - bytes) : length;

    if (data(multipart, bytes, plain))
        return -1;
    if (!found)
        return (ptrdiff_t)plain;
    multipart->state = DELIMITER;
    multipart->matched = 1;
    return (ptrdiff_t)plain + 1;
}

static int begin_part(struct multipart *multipart)
{
    struct multipart_part part;

    multipart->headers[multipart->headers_length - 2] = '\0';
    multipart->problem = multipart_head(multipart->headers, &part);
    if (multipart->problem || multipart->calls->part(multipart->arg, &part))
        return -1;
    multipart->in_part = multipart->has_part = true;
    multipart->state = DELIMITER;
    multipart->matched = multipart->implied = 2;
    return 0;
}

/* The data of a part may be empty: its delimiter then begins with the CR LF of the empty line. */
static int header_byte(struct multipart *multipart, char byte)
{
    if (multipart->headers_length == MULTIPART_HEADERS_MAX)
        return refuse(multipart, "the headers of a part are too long");
    if (byte == '\0')
        return refuse(multipart, "a part has a NUL in its headers");
    multipart->headers[multipart->headers_length++] = byte;
    if (byte != '\n')
        return 0;
    size_t length = multipart->headers_length - multipart->line_start;

    if (length < 2 || multipart->headers[multipart->headers_length - 2] != '\r')
        return refuse(multipart, "a header line of a part does not end with CR LF");
    multipart->line_start = multipart->headers_length;
    return length == 2 ? begin_part(multipart) : 0;
}

int multipart_feed(struct multipart *multipart, const char *bytes, size_t length)
{
    size_t at = 0;

    while (at < length) {
        if (multipart->state == EPILOGUE)
            return 0;
        if (multipart->state == DATA) {
            ptrdiff_t scanned = scan(multipart, bytes + at, length - at);

            if (scanned < 0)
                return -1;
            at += (size_t)scanned;
            continue;
        }
        /* the byte can change the state; if it is not taken, it must be processed again */
        bool taken = true;
        int failed = multipart->state == DELIMITER ? match(multipart, bytes[at], &taken)
                     : multipart->state == HEADERS ? header_byte(multipart, bytes[at])
                                                   : behind(multipart, bytes[at], &taken);

        if (failed)
            return -1;
        at += taken;
    }
    return 0;
}
