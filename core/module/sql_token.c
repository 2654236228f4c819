#include "core/module/sql_token.h"

#include <string.h>
#include <strings.h>

#define BLANKS " \t\r\n\f\v"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

/* These comments can be nested. */
static const char *skip_comment(const char *at)
{
    int depth = 0;

    do {
        if (!strncmp(at, "/*", 2)) {
            depth++;
            at += 2;
        } else if (!strncmp(at, "*/", 2)) {
            depth--;
            at += 2;
        } else if (*at) {
            at++;
        }
    } while (depth && *at);
    return at;
}

static const char *skip_blank(const char *at)
{
    for (;;) {
        at += strspn(at, BLANKS);
        if (!strncmp(at, "--", 2))
            at += strcspn(at, "\r\n");
        else if (!strncmp(at, "/*", 2))
            at = skip_comment(at);
        else
            return at;
    }
}

/* A quoted text or name; two quotes inside represent one. */
static const char *skip_quoted(const char *at, bool escapes)
{
    char quote = *at++;

    for (; *at; at++) {
        if (escapes && *at == '\\' && at[1])
            at++;
        else if (*at == quote && *++at != quote)
            return at;
    }
    return at;
}

static bool is_word_part(char c)
{
    return (c && strchr(LETTERS "0123456789$", c)) || (unsigned char)c >= 0x80;
}

static bool is_word_start(char c)
{
    return is_word_part(c) && c != '$' && (c < '0' || c > '9');
}

/* $$…$$ or $tag$…$tag$; a single $, as in a parameter, is skipped. */
static const char *skip_dollar(const char *at)
{
    const char *tag = at++;

    while (is_word_part(*at) && *at != '$')
        at++;
    if (*at != '$' || (tag[1] >= '0' && tag[1] <= '9'))
        return at;
    size_t length = (size_t)(++at - tag);

    while (*at && strncmp(at, tag, length) != 0)
        at++;
    return *at ? at + length : at;
}

static const char *skip_word(const char *at)
{
    while (is_word_part(*at))
        at++;
    return at;
}

struct sql_token sql_token_next(const char **cursor)
{
    const char *start = skip_blank(*cursor), *end = start + 1;
    struct sql_token token = {SQL_OTHER, start, 1};

    if (!*start) {
        token.kind = SQL_END;
        end = start;
    } else if (*start == ';') {
        token.kind = SQL_SEMICOLON;
    } else if (strchr("eE", *start) && start[1] == '\'') {
        end = skip_quoted(start + 1, true);
    } else if (strchr("uU", *start) && start[1] == '&' && start[2] == '"') {
        token.kind = SQL_ESCAPED;
        end = skip_quoted(start + 2, false);
    } else if (is_word_start(*start)) {
        token.kind = SQL_WORD;
        end = skip_word(start);
    } else if (*start == '\'' || *start == '"') {
        token.kind = *start == '"' ? SQL_NAME : SQL_OTHER;
        end = skip_quoted(start, false);
    } else if (*start == '$') {
        end = skip_dollar(start);
    } else if (*start >= '0' && *start <= '9') {
        end = skip_word(start);
    }
    token.length = (size_t)(end - start);
    *cursor = end;
    return token;
}

bool sql_token_is(const struct sql_token *token, const char *word)
{
    size_t length = strlen(word);

    if (token->kind == SQL_NAME) /* an unquoted name would be converted to lower case */
        return token->length == length + 2 && !strncmp(token->start + 1, word, length);
    return token->kind == SQL_WORD && token->length == length &&
           !strncasecmp(token->start, word, length);
}

bool sql_token_among(const struct sql_token *token, const char *const *words)
{
    while (*words && !sql_token_is(token, *words))
        words++;
    return *words != NULL;
}

const char *sql_words(const char *text, char *out, size_t size)
{
    size_t used = 0;

    for (text = skip_blank(text); *text && used + 1 < size; text++) {
        bool blank = strchr(BLANKS, *text) != NULL;

        if (blank && used && out[used - 1] == ' ')
            continue;
        out[used++] = blank ? ' ' : *text;
    }
    while (used && out[used - 1] == ' ')
        used--;
    out[used] = '\0';
    return out;
}
