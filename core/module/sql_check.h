/*
 * Which statements of modules are never sent. The connections are shared: many requests travel on
 * one, and the host begins and ends their transactions. A statement that did so itself would take
 * the writes of others with it, and one that changes the session would change it for all.
 *
 * What a function does that a statement calls cannot be seen from here; pg_session.c sees some of
 * it. Used by the host and by the fake host.
 */
#ifndef CORE_SQL_CHECK_H
#define CORE_SQL_CHECK_H

#include <stdbool.h>

/*
 * Why it is refused, in words that follow "the statement"; NULL: it may be sent. `interactive`: it
 * is one of bb_transaction()'s, where what ends with the transaction is allowed.
 */
const char *sql_check(const char *text, bool interactive);

/*
 * Whether a text can be nothing but a statement, whoever wrote it for what. Prose begins with
 * "Update", "Select" or "Set" as well, labels are "begin" or "commit", and so are lines of a log:
 * in letters that are not capitals a statement is sure only where it is closed by a semicolon, or
 * is of a form that nobody else writes.
 */
bool sql_is_sure(const char *text);

#endif
