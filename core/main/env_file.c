#include "core/main/env_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/store/pg_connect.h"

/* The position in the text of the file. */
struct place {
    char *at;
    unsigned line;
};

/* The part of a value that a character is in. Quotes have a meaning only in BEFORE. */
enum part { BEFORE, PLAIN, SINGLE, DOUBLE };

static bool env_file_is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_')
            return false;
    return length && !isdigit((unsigned char)*text);
}

static bool env_file_is_end(char c)
{
    return c == '\n' || c == '\r';
}

static bool env_file_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static enum part env_file_part_after(enum part part, char c)
{
    if (part == SINGLE || part == DOUBLE)
        return c == (part == SINGLE ? '\'' : '"') ? BEFORE : part;
    if (part == BEFORE && (c == '\'' || c == '"'))
        return c == '\'' ? SINGLE : DOUBLE;
    return part == BEFORE && env_file_is_blank(c) ? BEFORE : PLAIN;
}

/* Processes the character after a backslash; removes a backslash and newline. */
static char *env_file_take_escaped(struct place *place, enum part part, char *out)
{
    char c = place->at[1];

    if (!c)
        return out;
    place->at++;
    if (c == '\r' && place->at[1] == '\n')
        place->at++;
    if (env_file_is_end(c)) {
        place->line++;
        return out;
    }
    if (part == DOUBLE && !strchr("\"\\`$", c))
        *out++ = '\\';
    *out++ = c;
    return out;
}

/* Removes quotes and backslashes from a value, in place. -1: a closing quote is missing. */
static int env_file_take_value(struct place *place)
{
    char *start = place->at, *out = start, *kept = start; /* blanks before `kept` are kept */
    enum part part = BEFORE;

    for (; *place->at && (part >= SINGLE || !env_file_is_end(*place->at)); place->at++) {
        char c = *place->at;
        enum part after = env_file_part_after(part, c);

        if (c == '\\' && part != SINGLE) {
            out = kept = env_file_take_escaped(place, part, out);
            part = part == DOUBLE ? DOUBLE : PLAIN;
            continue;
        }
        place->line += c == '\n';
        if (after == part ? part != BEFORE : after == PLAIN)
            *out++ = c;
        if (part >= SINGLE || !env_file_is_blank(c))
            kept = out;
        part = after;
    }
    if (*place->at)
        place->line += *place->at++ == '\n';
    *kept = '\0';
    return part >= SINGLE ? -1 : 0;
}

/* Returns NULL, or the error in the variable that begins here. */
static const char *env_file_take_variable(struct place *place)
{
    char *name = place->at;
    size_t length = strcspn(name, "=\r\n");

    if (name[length] != '=' || !env_file_is_name(name, length))
        return "is not NAME=value";
    name[length] = '\0';
    place->at = name + length + 1;
    char *value = place->at;

    if (env_file_take_value(place))
        return "has an unterminated quote";
    return setenv(name, value, 1) ? "out of memory" : NULL;
}

int env_file_read(const char *path)
{
    FILE *file = fopen(path, "re");

    if (!file) {
        fprintf(stderr, "busbar: %s: cannot be read: %s\n", path, strerror(errno));
        return -1;
    }
    char *text = NULL;
    size_t room = 0;
    unsigned number = 0;
    const char *wrong = NULL;
    ssize_t length = getdelim(&text, &room, '\0', file);
    int failed = length < 0 && !feof(file) ? errno : 0;

    struct place place = {text, 1};

    if (length > 0 && strlen(text) < (size_t)length)
        wrong = "has a zero byte";
    while (length > 0 && !wrong && *place.at) {
        number = place.line;
        if (*place.at == '#' || *place.at == ';')
            place.at += strcspn(place.at, "\r\n");
        else if (env_file_is_blank(*place.at) || env_file_is_end(*place.at))
            place.line += *place.at++ == '\n';
        else
            wrong = env_file_take_variable(&place);
    }
    if (text)
        explicit_bzero(text, room);
    free(text);
    fclose(file);
    if (failed)
        fprintf(stderr, "busbar: %s: cannot be read: %s\n", path, strerror(failed));
    else if (wrong && number)
        fprintf(stderr, "busbar: %s:%u: %s\n", path, number, wrong);
    else if (wrong)
        fprintf(stderr, "busbar: %s: %s\n", path, wrong);
    pg_clean_environment();
    return failed || wrong ? -1 : 0;
}
