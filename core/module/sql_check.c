#include "core/module/sql_check.h"

#include <string.h>

#include "core/module/sql_token.h"

static const char *const transaction[] = {"BEGIN", "START",     "COMMIT",  "END", "ROLLBACK",
                                          "ABORT", "SAVEPOINT", "RELEASE", NULL};
static const char *const session[] = {"SET",     "RESET", "LISTEN",  "UNLISTEN",   "DISCARD",
                                      "PREPARE", "LOAD",  "EXECUTE", "DEALLOCATE", NULL};
static const char *const local[] = {"LOCAL", "TRANSACTION", "CONSTRAINTS", NULL};
static const char *const lasting[] = {"DO", "CALL", "DECLARE", "FETCH", "MOVE", "CLOSE", NULL};
static const char *const alone[] = {"VACUUM", "CLUSTER", NULL};
static const char *const definitions[] = {"CREATE", "DROP", "ALTER", "REINDEX", NULL};
static const char *const outside[] = {"DATABASE", "TABLESPACE", "SYSTEM", "SUBSCRIPTION", NULL};
static const char *const before_temporary[] = {"OR", "REPLACE", "GLOBAL", "LOCAL", NULL};
static const char *const temporary[] = {"TEMP", "TEMPORARY", NULL};
static const char *const session_functions[] = {
    "pg_advisory_lock",       "pg_advisory_lock_shared",
    "pg_try_advisory_lock",   "pg_try_advisory_lock_shared",
    "pg_advisory_unlock",     "pg_advisory_unlock_shared",
    "pg_advisory_unlock_all", NULL};

#define OF_HOST "begins or ends a transaction, which the host does"
#define OF_SESSION "changes the connection, which other requests share"
#define NOT_SHARED "needs a transaction of its own: bb_transaction()"
#define OUTSIDE "cannot run inside a transaction"

/* Checks the first two words. */
static const char *check_kind(const struct sql_token *first, const struct sql_token *second,
                              bool interactive)
{
    bool prepares = sql_token_is(first, "PREPARE") && sql_token_is(second, "TRANSACTION");

    if (prepares || sql_token_among(first, transaction))
        return OF_HOST;
    if (interactive && sql_token_is(first, "SET") && sql_token_among(second, local))
        return NULL;
    if (sql_token_among(first, session))
        return OF_SESSION;
    if (sql_token_is(first, "COPY"))
        return "copies, for which there is no function";
    if (sql_token_among(first, alone))
        return OUTSIDE;
    if (sql_token_among(first, definitions) && sql_token_among(second, outside))
        return OUTSIDE;
    return !interactive && sql_token_among(first, lasting) ? NOT_SHARED : NULL;
}

/*
 * Whether the text after CREATE is [OR REPLACE] [GLOBAL | LOCAL] TEMP…, or after INTO [GLOBAL |
 * LOCAL] TEMP…: temporary objects stay with the connection.
 */
static bool is_temporary(const char *text)
{
    struct sql_token token;

    do
        token = sql_token_next(&text);
    while (sql_token_among(&token, before_temporary));
    return token.kind == SQL_WORD && sql_token_among(&token, temporary);
}

/* Whether the last argument of a call is TRUE. `text` begins after the function's name. */
static bool ends_true(const char *text)
{
    struct sql_token token = {SQL_OTHER, "", 0}, last = token, before;
    int depth = 0;

    do {
        before = last;
        last = token;
        token = sql_token_next(&text);
        depth += *token.start == '(';
        depth -= *token.start == ')';
    } while (depth && token.kind != SQL_END);
    return !depth && *before.start == ',' && sql_token_is(&last, "true");
}

/*
 * A quoted name counts only if it is called; a word is refused anywhere. `text` begins after the
 * token.
 */
static bool changes_session(const struct sql_token *token, const char *text, bool interactive)
{
    const char *next = text;
    bool called = *sql_token_next(&next).start == '(';

    if (token->kind == SQL_NAME && !called)
        return false;
    if (sql_token_is(token, "set_config"))
        return !interactive || !called || !ends_true(text);
    return sql_token_among(token, session_functions);
}

/* pg_temp.table has the same effect as CREATE TEMP. `text` begins after the token. */
static bool is_temporary_schema(const struct sql_token *token, const char *text)
{
    return sql_token_is(token, "pg_temp") && *sql_token_next(&text).start == '.';
}

/* Checks the words anywhere in the text. The body of a function contains separate statements. */
static const char *check_rest(const char *text, const struct sql_token *first, bool interactive)
{
    bool defines = sql_token_among(first, definitions), ended = false;
    bool updates = sql_token_is(first, "UPDATE"), settings = false;
    bool inserts = sql_token_is(first, "INSERT");

    for (;;) {
        struct sql_token token = sql_token_next(&text);

        if (token.kind == SQL_END)
            return updates && settings ? OF_SESSION : NULL;
        if (ended && token.kind != SQL_SEMICOLON && !defines)
            return "is more than one";
        ended = ended || token.kind == SQL_SEMICOLON;
        if (token.kind == SQL_ESCAPED)
            return "has a name with escapes, which cannot be judged";
        if (defines && sql_token_is(&token, "CONCURRENTLY"))
            return OUTSIDE;
        if (is_temporary_schema(&token, text))
            return OF_SESSION;
        if (defines)
            continue;
        updates = updates || (token.kind == SQL_WORD && sql_token_is(&token, "UPDATE"));
        settings = settings || sql_token_is(&token, "pg_settings");
        if (!inserts && token.kind == SQL_WORD && sql_token_is(&token, "INTO") &&
            is_temporary(text))
            return OF_SESSION;
        if (changes_session(&token, text, interactive))
            return OF_SESSION;
    }
}

const char *sql_check(const char *text, bool interactive)
{
    struct sql_token first, second;

    do
        first = sql_token_next(&text);
    while (first.kind == SQL_SEMICOLON);
    if (first.kind == SQL_END)
        return "is empty";
    const char *rest = text;

    second = sql_token_next(&text);
    const char *why = check_kind(&first, &second, interactive);

    if (!why && sql_token_is(&first, "CREATE") && is_temporary(rest))
        why = OF_SESSION;
    return why ? why : check_rest(rest, &first, interactive);
}
