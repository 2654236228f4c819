/* Whether a text that is found in a file is a statement, or may be prose; see sql_check.h. */
#include <ctype.h>
#include <string.h>

#include "core/module/sql_check.h"
#include "core/module/sql_token.h"

enum { FORM_WORDS = 6 };

/* What a statement begins with. */
static const char *const verbs[] = {
    "ABORT",   "ALTER",   "ANALYZE", "BEGIN",    "CALL",       "CHECKPOINT", "CLOSE",   "CLUSTER",
    "COMMENT", "COMMIT",  "COPY",    "CREATE",   "DEALLOCATE", "DECLARE",    "DELETE",  "DISCARD",
    "DO",      "DROP",    "END",     "EXECUTE",  "EXPLAIN",    "FETCH",      "GRANT",   "INSERT",
    "LISTEN",  "LOAD",    "LOCK",    "MERGE",    "MOVE",       "NOTIFY",     "PREPARE", "REFRESH",
    "REINDEX", "RELEASE", "RESET",   "REVOKE",   "ROLLBACK",   "SAVEPOINT",  "SELECT",  "SET",
    "SHOW",    "START",   "TABLE",   "TRUNCATE", "UNLISTEN",   "UPDATE",     "VACUUM",  "VALUES",
    "WITH",    NULL};

/* What only a statement begins with, and where "$" is, ends with. "?" is any name, "=v" a value. */
static const char *const forms[][FORM_WORDS] = {
    {"begin", "work", "$"},
    {"begin", "transaction", "$"},
    {"begin", "isolation", "level"},
    {"start", "transaction", "$"},
    {"start", "transaction", "isolation", "level"},
    {"start", "transaction", "read", "only"},
    {"commit", "work", "$"},
    {"commit", "transaction", "$"},
    {"commit", "and", "chain", "$"},
    {"commit", "prepared", "'"},
    {"rollback", "work", "$"},
    {"rollback", "transaction", "$"},
    {"rollback", "and", "chain", "$"},
    {"rollback", "to", "savepoint", "?", "$"},
    {"rollback", "prepared", "'"},
    {"release", "savepoint", "?", "$"},
    {"prepare", "transaction", "'"},
    {"deallocate", "all", "$"},
    {"unlisten", "*", "$"},
    {"set", "?", "=", "=v", "$"},
    {"set", "?", "=", "=v", ","},
    {"set", "?", "to", "'"},
    {"set", "session", "?", "=", "=v", "$"},
    {"set", "session", "?", "to", "'"},
    {"set", "search_path", "to"},
    {"set", "session", "authorization"},
    {"set", "time", "zone", "'"},
    {"set", "role", "'"},
    {"select", "set_config", "("},
    {"select", "pg_catalog", ".", "set_config", "("},
    {"select", "pg_advisory_lock", "("},
    {"select", "pg_advisory_lock_shared", "("},
    {"select", "pg_try_advisory_lock", "("},
    {"select", "pg_try_advisory_lock_shared", "("},
    {"select", "pg_advisory_unlock", "("},
    {"select", "pg_advisory_unlock_shared", "("},
    {"select", "pg_advisory_unlock_all", "("},
    {"update", "pg_settings", "set"},
    {"create", "temp", "table", "?", "("},
    {"create", "temp", "table", "?", "as"},
    {"create", "temporary", "table", "?", "("},
    {"create", "temporary", "table", "?", "as"},
    {"create", "index", "concurrently"},
    {"create", "unique", "index", "concurrently"},
    {"drop", "index", "concurrently"},
    {"drop", "database", "if", "exists"},
    {"copy", "?", "from", "stdin"},
    {"copy", "?", "to", "stdout"},
    {"vacuum", "full", "?", "$"},
    {"vacuum", "analyze", "?", "$"},
};

static bool is_name(const struct sql_token *token)
{
    return token->kind == SQL_WORD || token->kind == SQL_NAME;
}

static bool is_value(const struct sql_token *token)
{
    char first = *token->start;

    return is_name(token) || first == '\'' || isdigit((unsigned char)first);
}

static bool fits(const struct sql_token *token, const char *word)
{
    if (!strcmp(word, "$"))
        return token->kind == SQL_END || token->kind == SQL_SEMICOLON;
    if (!strcmp(word, "?"))
        return is_name(token);
    if (!strcmp(word, "=v"))
        return is_value(token);
    return token->kind == SQL_OTHER ? *token->start == *word : sql_token_is(token, word);
}

static bool has_form(const char *text, const char *const form[FORM_WORDS])
{
    for (size_t i = 0; i < FORM_WORDS && form[i]; i++) {
        struct sql_token token = sql_token_next(&text);

        if (!fits(&token, form[i]))
            return false;
    }
    return true;
}

static bool has_any_form(const char *text)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (has_form(text, forms[i]))
            return true;
    }
    return false;
}

/* `text`: behind the first word. What calls or assigns is a line of some other language. */
static bool is_closed(const char *text)
{
    struct sql_token token = sql_token_next(&text), last = token;

    if (token.kind == SQL_OTHER && !is_value(&token) && *token.start != '*')
        return false;
    for (; token.kind != SQL_END; token = sql_token_next(&text))
        last = token;
    return last.kind == SQL_SEMICOLON;
}

/* A capital and small letters, as a sentence begins. */
static bool begins_sentence(const struct sql_token *word)
{
    size_t i = 1;

    while (i < word->length && islower((unsigned char)word->start[i]))
        i++;
    return isupper((unsigned char)*word->start) && i == word->length;
}

bool sql_is_sure(const char *text)
{
    const char *rest = text;
    struct sql_token first = sql_token_next(&rest);

    if (first.kind != SQL_WORD || !sql_token_among(&first, verbs))
        return false;
    if (isupper((unsigned char)first.start[0]) && isupper((unsigned char)first.start[1]))
        return true;
    return is_closed(rest) || (!begins_sentence(&first) && has_any_form(text));
}
