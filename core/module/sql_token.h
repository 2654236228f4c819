/*
 * SQL read token by token, as far as sql_check.h needs it: comments are passed over, and texts
 * between quotes or dollars are one token whatever is in them. Any thread.
 */
#ifndef CORE_SQL_TOKEN_H
#define CORE_SQL_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

enum sql_token_kind {
    SQL_END,
    SQL_WORD,    /* a keyword, or a name without quotes */
    SQL_NAME,    /* "a name", with its quotes */
    SQL_ESCAPED, /* U&"a name", whose characters may be written otherwise */
    SQL_SEMICOLON,
    SQL_OTHER
};

/* Bytes of the text that is read. */
struct sql_token {
    enum sql_token_kind kind;
    const char *start;
    size_t length;
};

/* The next one from *cursor, which moves behind it. */
struct sql_token sql_token_next(const char **cursor);

/* Whether it is this word, in letters of any case, or this name, letter by letter. */
bool sql_token_is(const struct sql_token *token, const char *word);

/* The same of one of `words`, which end with NULL. */
bool sql_token_among(const struct sql_token *token, const char *const *words);

/*
 * The first words of a statement, on one line and without comments in front, to name it. Writes at
 * most `size` bytes to `out`, with the NUL, and returns `out`.
 */
const char *sql_words(const char *text, char *out, size_t size);

#endif
