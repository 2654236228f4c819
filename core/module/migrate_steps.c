#include "core/module/migrate_steps.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "core/base/text.h"

#define MARK "-- step "

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end ? end + 1 : line + strlen(line);
}

static bool is_mark(const char *line)
{
    return !strncmp(line, MARK, sizeof MARK - 1);
}

/* Whether the line says nothing: empty, or a comment. */
static bool is_idle(const char *line)
{
    line += strspn(line, " \t\r");
    return !*line || *line == '\n' || !strncmp(line, "--", 2);
}

static int read_mark(const char *line, struct migrate_step *step)
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

/* Blank lines at the end do not count: the next step may be set off by one. */
static int checksum(struct migrate_step *step)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length;
    size_t size = step->length;

    while (size && strchr(" \t\r\n", step->sql[size - 1]))
        size--;
    if (!EVP_Digest(step->sql, size, digest, &length, EVP_sha256(), NULL))
        return -1;
    text_hex(digest, length, step->checksum);
    return 0;
}

static int refuse(char *why, size_t why_size, const char *reason, unsigned expected)
{
    snprintf(why, why_size, "%s (expected: \"" MARK "%u: title\")", reason, expected);
    return -1;
}

int migrate_next(const char **cursor, unsigned expected, struct migrate_step *step, char *why,
                 size_t why_size)
{
    const char *line = *cursor;

    while (*line && !is_mark(line)) {
        if (!is_idle(line))
            return refuse(why, why_size, "has text before its first step", expected);
        line = next_line(line);
    }
    if (!*line)
        return 0;
    if (read_mark(line, step) || step->number != expected)
        return refuse(why, why_size, "has a malformed or misnumbered step", expected);
    step->sql = line = next_line(line);
    while (*line && !is_mark(line))
        line = next_line(line);
    step->length = (size_t)(line - step->sql);
    *cursor = line;
    return checksum(step) ? refuse(why, why_size, "cannot be summed", expected) : 1;
}
