#include "core/sql_check.h"

#include <string.h>
#include <strings.h>

#define BLANKS " \t\r\n\f\v"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"

enum token_kind { TOKEN_END, TOKEN_WORD, TOKEN_SEMICOLON, TOKEN_OTHER };

struct token {
    enum token_kind kind;
    const char *start;
    size_t length;
};

/* ---- reading -------------------------------------------------------------------------------- */

/* Comments of this form may hold others. */
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

/* A text or a name between quotes; two of them within stand for one. */
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

/* $$…$$ or $tag$…$tag$; a lone $, as of a parameter, is passed over. */
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

static struct token next_token(const char **cursor)
{
    const char *start = skip_blank(*cursor), *end = start + 1;
    struct token token = {TOKEN_OTHER, start, 1};

    if (!*start) {
        token.kind = TOKEN_END;
        end = start;
    } else if (*start == ';') {
        token.kind = TOKEN_SEMICOLON;
    } else if (strchr("eE", *start) && start[1] == '\'') {
        end = skip_quoted(start + 1, true);
    } else if (is_word_start(*start)) {
        token.kind = TOKEN_WORD;
        end = skip_word(start);
    } else if (*start == '\'' || *start == '"') {
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

static bool is_word(const struct token *token, const char *word)
{
    return token->kind == TOKEN_WORD && token->length == strlen(word) &&
           !strncasecmp(token->start, word, token->length);
}

/* Whether it is one of a list that ends with NULL. */
static bool is_one_of(const struct token *token, const char *const *words)
{
    while (*words && !is_word(token, *words))
        words++;
    return *words != NULL;
}

/* ---- judging -------------------------------------------------------------------------------- */

static const char *const transaction[] = {"BEGIN", "START",     "COMMIT",  "END", "ROLLBACK",
                                          "ABORT", "SAVEPOINT", "RELEASE", NULL};
static const char *const session[] = {"SET",     "RESET", "LISTEN",  "UNLISTEN",   "DISCARD",
                                      "PREPARE", "LOAD",  "EXECUTE", "DEALLOCATE", NULL};
static const char *const local[] = {"LOCAL", "TRANSACTION", "CONSTRAINTS", NULL};
static const char *const lasting[] = {"DO", "CALL", "DECLARE", "FETCH", "MOVE", "CLOSE", NULL};
static const char *const alone[] = {"VACUUM", "CLUSTER", NULL};
static const char *const definitions[] = {"CREATE", "DROP", "ALTER", "REINDEX", NULL};
static const char *const outside[] = {"DATABASE", "TABLESPACE", "SYSTEM", "SUBSCRIPTION", NULL};
static const char *const session_functions[] = {
    "pg_advisory_lock",       "pg_advisory_lock_shared",
    "pg_try_advisory_lock",   "pg_try_advisory_lock_shared",
    "pg_advisory_unlock",     "pg_advisory_unlock_shared",
    "pg_advisory_unlock_all", NULL};

#define OF_HOST "begins or ends a transaction, which the host does"
#define OF_SESSION "changes the connection, which other requests share"
#define NOT_SHARED "needs a transaction of its own: bb_transaction()"
#define OUTSIDE "cannot run inside a transaction"

/* By its first two words. */
static const char *check_kind(const struct token *first, const struct token *second,
                              bool interactive)
{
    bool prepares = is_word(first, "PREPARE") && is_word(second, "TRANSACTION");

    if (prepares || is_one_of(first, transaction))
        return OF_HOST;
    if (interactive && is_word(first, "SET") && is_one_of(second, local))
        return NULL;
    if (is_one_of(first, session))
        return OF_SESSION;
    if (is_word(first, "COPY"))
        return "copies, for which there is no function";
    if (is_one_of(first, alone))
        return OUTSIDE;
    if (is_one_of(first, definitions) && is_one_of(second, outside))
        return OUTSIDE;
    return !interactive && is_one_of(first, lasting) ? NOT_SHARED : NULL;
}

/* By what stands anywhere in it. A function's body has statements of its own. */
static const char *check_rest(const char *text, bool defines, bool interactive)
{
    bool ended = false;

    for (;;) {
        struct token token = next_token(&text);

        if (token.kind == TOKEN_END)
            return NULL;
        if (ended && token.kind != TOKEN_SEMICOLON && !defines)
            return "is more than one";
        ended = ended || token.kind == TOKEN_SEMICOLON;
        if (defines && is_word(&token, "CONCURRENTLY"))
            return OUTSIDE;
        if (defines || token.kind != TOKEN_WORD)
            continue;
        if (is_one_of(&token, session_functions) || (!interactive && is_word(&token, "set_config")))
            return OF_SESSION;
    }
}

const char *sql_check(const char *text, bool interactive)
{
    struct token first, second;

    do
        first = next_token(&text);
    while (first.kind == TOKEN_SEMICOLON);
    if (first.kind == TOKEN_END)
        return "is empty";
    const char *rest = text;

    second = next_token(&text);
    const char *why = check_kind(&first, &second, interactive);

    return why ? why : check_rest(rest, is_one_of(&first, definitions), interactive);
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
