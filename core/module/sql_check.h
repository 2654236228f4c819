/*
 * Statements of modules that are never sent. Connections are shared: many requests use one
 * connection, and the host begins and ends their transactions. A statement that did so itself would
 * commit or undo the writes of others, and a statement that changes the session would change it for
 * all.
 *
 * The effects of functions that a statement calls are not visible here; pg_session.c detects some
 * of them. Used by the host and by the fake host.
 */
#ifndef CORE_SQL_CHECK_H
#define CORE_SQL_CHECK_H

#include <stdbool.h>

/*
 * Returns why a statement is refused, in words that follow "the statement"; NULL: it may be sent.
 * `interactive`: it is part of bb_transaction(), which allows changes that end with the
 * transaction.
 */
const char *sql_check(const char *text, bool interactive);

/*
 * Whether a text is certainly a statement and not prose. Prose can also begin with "Update",
 * "Select" or "Set", and labels and log lines can be "begin" or "commit". So a text that is not in
 * capitals is certainly a statement only if it ends with a semicolon, or has a form that only SQL
 * has.
 */
bool sql_is_sure(const char *text);

#endif
