/* Parses the header lines of a part and their parameters. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/lib/multipart.h"
#include "core/lib/text.h"

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

static bool plain_encoding(const char *value)
{
    return !strcasecmp(value, "binary") || !strcasecmp(value, "8bit") || !strcasecmp(value, "7bit");
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
    if (!strcasecmp(name, "Content-Transfer-Encoding") && !plain_encoding(value))
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

static void trim_end(char *value)
{
    size_t length = strlen(value);

    while (length && (value[length - 1] == ' ' || value[length - 1] == '\t'))
        value[--length] = '\0';
}

const char *multipart_head(char *lines, struct multipart_part *part)
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

        trim_end(value);
        problem = header(&head, line, value);
    }
    part->filename = head.extended ? head.extended : head.plain;
    if (!problem && (!part->name || !*part->name))
        problem = "a part has no name";
    return problem;
}
