#include "core/module/migrate_steps.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/text.h"

#define MARK "-- step "

static const char *migrate_steps_next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end ? end + 1 : line + strlen(line);
}

static bool migrate_steps_is_mark(const char *line)
{
    return !strncmp(line, MARK, sizeof MARK - 1);
}

static int migrate_steps_read_mark(const char *line, struct migrate_step *step)
{
    int used = 0;

    if (sscanf(line, MARK "%9u: %n", &step->number, &used) < 1 || !used)
        return -1;
    size_t length = strcspn(line + used, "\r\n");

    if (!length || length >= sizeof step->title)
        return -1;
    memcpy(step->title, line + used, length);
    step->title[length] = '\0';
    return 0;
}

static bool migrate_steps_is_word_part(char c)
{
    return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/* Returns the end of the comment at `at`; `at` if there is no comment. Comments can nest. */
static const char *migrate_steps_after_comment(const char *at)
{
    int depth = 0;

    if (!strncmp(at, "--", 2))
        return at + strcspn(at, "\n");
    do {
        bool opens = !strncmp(at, "/*", 2), closes = depth && !strncmp(at, "*/", 2);

        depth += opens - closes;
        at += opens || closes ? 2 : depth > 0;
    } while (depth && *at);
    return at;
}

/* Returns 0, or -1 if memory ran out. */
static int migrate_steps_checksum(struct migrate_step *step)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length;
    char *sql = strndup(step->sql, step->length);

    if (!sql)
        return -1;
    /*
     * Removes comments and white space from a NUL-terminated text, so that changing them in a step
     * does not change its checksum. Keeps text between quotes, and a separator between words.
     */
    char *to = sql, quote = 0;
    bool apart = false;

    for (const char *at = sql; *at;) {
        const char *next = quote ? at : migrate_steps_after_comment(at);

        if (next != at || (!quote && isspace((unsigned char)*at))) {
            apart = true;
            at = next != at ? next : at + 1;
            continue;
        }
        if (apart && to != sql && migrate_steps_is_word_part(to[-1]) &&
            migrate_steps_is_word_part(*at))
            *to++ = ' ';
        apart = false;
        if (quote)
            quote = *at == quote ? 0 : quote;
        else if (*at == '\'' || *at == '"')
            quote = *at;
        *to++ = *at++;
    }
    *to = '\0';
    int summed = EVP_Digest(sql, strlen(sql), digest, &length, EVP_sha256(), NULL);

    free(sql);
    if (!summed)
        return -1;
    text_hex(digest, length, step->checksum);
    return 0;
}

static int migrate_steps_refuse(char *why, size_t why_size, const char *reason, unsigned expected)
{
    snprintf(why, why_size, "%s (expected: \"" MARK "%u: title\")", reason, expected);
    return -1;
}

int migrate_next(const char **cursor, unsigned expected, struct migrate_step *step, char *why,
                 size_t why_size)
{
    const char *line = *cursor;

    while (*line && !migrate_steps_is_mark(line)) {
        const char *code = line + strspn(line, " \t\r");

        if (*code && *code != '\n' && strncmp(code, "--", 2) != 0)
            return migrate_steps_refuse(why, why_size, "has text before its first step", expected);
        line = migrate_steps_next_line(line);
    }
    if (!*line)
        return 0;
    if (migrate_steps_read_mark(line, step) || step->number != expected)
        return migrate_steps_refuse(why, why_size, "has a malformed or misnumbered step", expected);
    step->sql = line = migrate_steps_next_line(line);
    while (*line && !migrate_steps_is_mark(line))
        line = migrate_steps_next_line(line);
    step->length = (size_t)(line - step->sql);
    *cursor = line;
    return migrate_steps_checksum(step)
               ? migrate_steps_refuse(why, why_size, "has a step whose checksum cannot be computed",
                                      expected)
               : 1;
}
