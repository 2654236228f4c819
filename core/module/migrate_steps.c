#include "core/module/migrate_steps.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/text.h"
#include "core/module/sql_token.h"

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

/* Whether the line contains no code: empty, or a comment. */
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

/*
 * Adds the tokens of a NUL-terminated text, each followed by a NUL, so that comments and white
 * space do not count. The body of a function or of DO, between dollar quotes, is tokenized, too;
 * any other quoted text counts byte by byte.
 */
static bool add_tokens(EVP_MD_CTX *digest, const char *sql)
{
    static const char *const before_body[] = {"as", "do", "sql", "plpgsql", NULL};
    bool body = false, added = true;

    for (struct sql_token token = sql_token_next(&sql); added && token.kind != SQL_END;
         token = sql_token_next(&sql)) {
        size_t tag = *token.start == '$' ? strcspn(token.start + 1, "$") + 2 : 0;

        if (body && tag && token.length >= 2 * tag) {
            char *inner = strndup(token.start + tag, token.length - 2 * tag);

            added = inner && EVP_DigestUpdate(digest, "$$", 3) && add_tokens(digest, inner) &&
                    EVP_DigestUpdate(digest, "$$", 3);
            free(inner);
        } else {
            added = EVP_DigestUpdate(digest, token.start, token.length) &&
                    EVP_DigestUpdate(digest, "", 1);
        }
        body = sql_token_among(&token, before_body);
    }
    return added;
}

/* Returns 0, or -1 if memory ran out. */
static int checksum(struct migrate_step *step)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length;
    size_t size = step->length;
    char *sql = strndup(step->sql, step->length);
    EVP_MD_CTX *tokens = EVP_MD_CTX_new();
    bool summed = sql && tokens && EVP_DigestInit_ex(tokens, EVP_sha256(), NULL) &&
                  add_tokens(tokens, sql) && EVP_DigestFinal_ex(tokens, digest, &length);

    EVP_MD_CTX_free(tokens);
    free(sql);
    if (!summed)
        return -1;
    text_hex(digest, length, step->checksum);
    while (size && strchr(" \t\r\n", step->sql[size - 1]))
        size--;
    if (!EVP_Digest(step->sql, size, digest, &length, EVP_sha256(), NULL))
        return -1;
    text_hex(digest, length, step->former_checksum);
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
