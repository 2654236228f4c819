/*
 * Splits SQL into tokens, as needed by sql_check.h: comments are skipped, and quoted or
 * dollar-quoted texts are one token. Any thread.
 */
#ifndef CORE_SQL_TOKEN_H
#define CORE_SQL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

enum sql_token_kind {
    SQL_END,
    SQL_WORD,    /* a keyword, or an unquoted name */
    SQL_NAME,    /* "a name", including its quotes */
    SQL_ESCAPED, /* U&"a name", which may contain escapes */
    SQL_SEMICOLON,
    SQL_OTHER
};

/* Borrowed from the text. */
struct sql_token {
    enum sql_token_kind kind;
    const char *start;
    size_t length;
};

/* Returns the next token from *cursor, which is advanced. */
struct sql_token sql_token_next(const char **cursor);

/* Whether it is this word, in any case, or this name exactly. */
bool sql_token_is(const struct sql_token *token, const char *word);

/* Whether it is one of `words`, terminated by NULL. */
bool sql_token_among(const struct sql_token *token, const char *const *words);

/*
 * Writes the first words of a statement to `out`, on one line and without leading comments, as a
 * name for it: at most `size` bytes with the NUL. Returns `out`.
 */
const char *sql_words(const char *text, char *out, size_t size);

#endif
