#include "core/lib/multipart.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/text.h"

/* ---- header lines and their parameters ---- */

#define TOKEN_ENDS " \t\r\n;=\"(),/:<>?@[\\]{}"

static char *multipart_skip_blank(char *at)
{
    return at + strspn(at, " \t");
}

/*
 * Unescapes a quoted string in place; *at is after the opening quote. Only \" and \\ are escapes.
 * Other backslashes stay, and so does a backslash before the last quote of the header, because old
 * clients send Windows paths. Returns NULL if there is no closing quote.
 */
static char *multipart_quoted(char **at)
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

/*
 * Reads the next parameter of a header's value; *at is after the preceding ';'. Sets the name and
 * the unquoted value, both modified in place. Returns 1, 0 at the end, or -1 if malformed.
 */
static int multipart_parameter(char **at, char **name, char **value)
{
    char *equals, *end;

    *at = multipart_skip_blank(*at);
    while (**at == ';')
        *at = multipart_skip_blank(*at + 1);
    if (!**at)
        return 0;
    *name = *at;
    equals = *at + strcspn(*at, TOKEN_ENDS);
    if (equals == *at || *equals != '=')
        return -1;
    *equals = '\0';
    *at = equals + 1;
    if (**at == '"') {
        (*at)++;
        *value = multipart_quoted(at);
        *at = *value ? multipart_skip_blank(*at) : *at;
        return *value && (!**at || **at == ';') ? 1 : -1;
    }
    *value = *at;
    end = *at + strcspn(*at, " \t;");
    *at = multipart_skip_blank(end);
    if (end == *value || (**at && **at != ';'))
        return -1;
    if (*end) { /* the NUL overwrites a ';' at `end`, so the ';' is skipped first */
        *at += **at == ';';
        *end = '\0';
    }
    return 1;
}

static bool multipart_boundary_fits(const char *boundary)
{
    static const char allowed[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "'()+_,-./:=? ";
    size_t length = strspn(boundary, allowed);

    return length && !boundary[length] && length <= MULTIPART_BOUNDARY_MAX &&
           boundary[length - 1] != ' ';
}

int multipart_boundary(const char *content_type, char boundary[MULTIPART_BOUNDARY_MAX + 1])
{
    static const char type[] = "multipart/form-data";
    size_t length = sizeof type - 1;
    char *name, *value;
    int more, found = 0;

    if (strncasecmp(content_type, type, length) != 0)
        return 0;
    if (content_type[length] && !strchr("; \t", content_type[length]))
        return 0;
    char *copy = strdup(content_type + length), *at = copy;

    if (!copy)
        return -2;
    while ((more = multipart_parameter(&at, &name, &value)) > 0) {
        if (strcasecmp(name, "boundary") != 0)
            continue;
        if (found++ || !multipart_boundary_fits(value)) {
            more = -1;
            break;
        }
        memcpy(boundary, value, strlen(value) + 1);
    }
    free(copy);
    return more < 0 || !found ? -1 : 1;
}

/* Returns whether there are C0 controls or DEL; with `strict`, also tabs and C1 in UTF-8. */
static bool multipart_has_controls(const char *text, bool strict)
{
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text, next = (unsigned char)text[1];

        if ((byte < 0x20 && (strict || byte != '\t')) || byte == 0x7f ||
            (strict && byte == 0xc2 && next < 0xa0))
            return true;
    }
    return false;
}

/*
 * Decodes the value of filename*=UTF-8''%41 in place. Returns NULL if it has another form, is not
 * UTF-8, or contains control characters; the parameter is ignored then.
 */
static char *multipart_extended(char *value)
{
    char *language = strchr(value, '\'');
    char *text = language ? strchr(language + 1, '\'') : NULL;

    if (!text || strncasecmp(value, "utf-8'", 6) != 0 ||
        text_percent_decode(text + 1, strlen(text + 1), false) ||
        multipart_has_controls(text + 1, true))
        return NULL;
    return text + 1;
}

struct head {
    struct multipart_part *part;
    char *plain, *extended; /* the parameters filename and filename* */
    int dispositions;
};

static const char *multipart_disposition(struct head *head, char *value)
{
    size_t length = strcspn(value, " \t;");
    char *at = value + length, *name, *text;
    int more;

    if (head->dispositions++)
        return "a part has two Content-Disposition headers";
    if (length != 9 || strncasecmp(value, "form-data", 9) != 0)
        return "the Content-Disposition of a part is not form-data";
    while ((more = multipart_parameter(&at, &name, &text)) > 0) {
        if (!strcasecmp(name, "name") && !head->part->name)
            head->part->name = text;
        else if (!strcasecmp(name, "filename") && !head->plain)
            head->plain = text;
        else if (!strcasecmp(name, "filename*") && !head->extended)
            head->extended = multipart_extended(text);
        else if (!strcasecmp(name, "name") || !strcasecmp(name, "filename"))
            return "the Content-Disposition of a part names something twice";
    }
    return more < 0 ? "the Content-Disposition of a part is malformed" : NULL;
}

static const char *multipart_header(struct head *head, const char *name, char *value)
{
    if (!strcasecmp(name, "Content-Disposition"))
        return multipart_disposition(head, value);
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

/* Returns the next line, unfolded in place; NULL after the last line. */
static char *multipart_next_line(char **lines)
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

/* Parses the header lines of a part. Returns NULL, or the problem. */
static const char *multipart_head(char *lines, struct multipart_part *part)
{
    struct head head = {.part = part};
    const char *problem = NULL;
    char *line;

    *part = (struct multipart_part){.name = NULL};
    while (!problem && (line = multipart_next_line(&lines))) {
        char *colon = strchr(line, ':');

        if (!colon || colon == line || strcspn(line, TOKEN_ENDS) != (size_t)(colon - line))
            return "a header line of a part is malformed";
        if (multipart_has_controls(line, false))
            return "a header line of a part has control characters";
        *colon = '\0';
        char *value = multipart_skip_blank(colon + 1);

        for (size_t end = strlen(value); end && strchr(" \t", value[end - 1]);)
            value[--end] = '\0';
        problem = multipart_header(&head, line, value);
    }
    part->filename = head.extended ? head.extended : head.plain;
    if (!problem && (!part->name || !*part->name))
        problem = "a part has no name";
    return problem;
}

/* ---- the stream ---- */

static int multipart_refuse(struct multipart *multipart, const char *problem)
{
    multipart->problem = problem;
    return -1;
}

int multipart_init(struct multipart *multipart, const char *boundary,
                   const struct multipart_calls *calls, void *arg)
{
    size_t length = strlen(boundary);

    *multipart = (struct multipart){.calls = calls, .arg = arg};
    if (length > MULTIPART_BOUNDARY_MAX)
        return -1;
    memcpy(multipart->delimiter, "\r\n--", 4);
    memcpy(multipart->delimiter + 4, boundary, length);
    multipart->delimiter_length = length + 4;
    multipart->window = malloc(MULTIPART_HEADERS_MAX);
    if (!multipart->window)
        return -1;
    /* a body may begin with a delimiter that has no CR LF before it */
    memcpy(multipart->window, "\r\n", 2);
    multipart->end = multipart->implied = 2;
    return 0;
}

void multipart_free(struct multipart *multipart)
{
    free(multipart->window);
    multipart->window = NULL;
}

bool multipart_complete(const struct multipart *multipart)
{
    return multipart->state == MULTIPART_EPILOGUE;
}

/* Removes `length` bytes from the window. Those that are data of a part go to calls->data(). */
static int multipart_data(struct multipart *multipart, size_t length)
{
    size_t skipped = multipart->implied < length ? multipart->implied : length;
    const char *bytes = multipart->window + multipart->start + skipped;

    multipart->start += length;
    multipart->implied -= skipped;
    if (!multipart->in_part || length == skipped)
        return 0;
    return multipart->calls->data(multipart->arg, bytes, length - skipped);
}

/*
 * Calls calls->data() for the data before the next delimiter, and skips the delimiter and the CR LF
 * or -- after it. If neither follows, the delimiter is data. Returns 1; 0 to get more input; or -1.
 */
static int multipart_take_data(struct multipart *multipart)
{
    const char *from = multipart->window + multipart->start;
    const char *end = multipart->window + multipart->end;
    size_t whole = multipart->delimiter_length, length = (size_t)(end - from);
    const char *found = memmem(from, length, multipart->delimiter, whole);
    bool was_in_part = multipart->in_part;

    if (!found) /* the last bytes may be the beginning of a delimiter */
        return length < whole || !multipart_data(multipart, length - whole + 1) ? 0 : -1;
    const char *after = found + whole, *at = after;
    bool last = after < end && *after == '-';

    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    if (at - after > MULTIPART_PADDING_MAX)
        return multipart_refuse(multipart, "a boundary is followed by too much white space");
    if (memcmp(at, last ? "--" : "\r\n", end - at < 2 ? (size_t)(end - at) : 2) != 0)
        /* not a delimiter, and none can begin inside it, because only the first byte is a CR */
        return multipart_data(multipart, (size_t)(after - from)) ? -1 : 1;
    if (multipart_data(multipart, (size_t)(found - from)))
        return -1;
    if (end - at < 2)
        return 0;
    multipart->start += (size_t)(at + 2 - found);
    multipart->implied = multipart->line_start = 0;
    multipart->in_part = false;
    multipart->state = last ? MULTIPART_EPILOGUE : MULTIPART_HEADERS;
    if (last && !multipart->has_part)
        return multipart_refuse(multipart, "there is no part");
    return was_in_part && multipart->calls->end(multipart->arg) ? -1 : 1;
}

/* Parses a part's headers, and calls calls->part(). Returns 1; 0 if more input is needed; or -1. */
static int multipart_take_headers(struct multipart *multipart)
{
    char *headers = multipart->window + multipart->start, *line, *end;
    size_t length = multipart->end - multipart->start;
    struct multipart_part part;

    do {
        line = headers + multipart->line_start;
        end = memchr(line, '\n', length - multipart->line_start);
        if (!end && length == MULTIPART_HEADERS_MAX)
            return multipart_refuse(multipart, "the headers of a part are too long");
        if (!end)
            return 0;
        if (memchr(line, '\0', (size_t)(end - line)))
            return multipart_refuse(multipart, "a part has a NUL in its headers");
        if (end == line || end[-1] != '\r')
            return multipart_refuse(multipart, "a header line of a part does not end with CR LF");
        multipart->line_start = (size_t)(end + 1 - headers);
    } while (end - line > 1);
    *line = '\0';
    multipart->problem = multipart_head(headers, &part);
    if (multipart->problem || multipart->calls->part(multipart->arg, &part))
        return -1;
    *line = '\r'; /* the part may be empty: then this CR LF begins a delimiter, so restore the CR */
    multipart->start += (size_t)(line - headers);
    multipart->implied = 2;
    multipart->in_part = multipart->has_part = true;
    multipart->state = MULTIPART_DATA;
    return 1;
}

int multipart_feed(struct multipart *multipart, const char *bytes, size_t length)
{
    while (length && multipart->state != MULTIPART_EPILOGUE) {
        size_t room = MULTIPART_HEADERS_MAX - multipart->end, piece = length < room ? length : room;
        int more = 1;

        memcpy(multipart->window + multipart->end, bytes, piece);
        multipart->end += piece;
        bytes += piece;
        length -= piece;
        while (more > 0 && multipart->state != MULTIPART_EPILOGUE)
            more = multipart->state == MULTIPART_HEADERS ? multipart_take_headers(multipart)
                                                         : multipart_take_data(multipart);
        if (more < 0)
            return -1;
        multipart->end -= multipart->start;
        memmove(multipart->window, multipart->window + multipart->start, multipart->end);
        multipart->start = 0;
    }
    return 0;
}
