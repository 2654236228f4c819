/*
 * The table of PostgreSQL's error codes (SQLSTATE) that the host handles specially. All code that
 * distinguishes errors of PostgreSQL uses this table. Any thread.
 */
#ifndef CORE_SQLSTATE_H
#define CORE_SQLSTATE_H

#include <stdbool.h>

enum sqlstate_flag {
    /* A later retry may succeed, or an operator must act: the client gets a 503. */
    SQLSTATE_PASSING = 1 << 0,
    /* A table, column or other object is missing: while a migration runs, the client gets a 503. */
    SQLSTATE_UNDEFINED = 1 << 1,
    /* The host does not log the error: a module may expect it, or the statement is sent again. */
    SQLSTATE_EXPECTED = 1 << 2,
    /* Transactions conflicted with each other: the host retries the statement at once. */
    SQLSTATE_AGAIN = 1 << 3,
    /* Another request has stored the same row. If both requests had the same idempotency key, the
     * response of the other request is sent for this request, too. */
    SQLSTATE_CONFLICT = 1 << 4,
    /* A module's statement raised the error with busbar_require(): the code is BB followed by the
     * HTTP status, and the message is for the client. */
    SQLSTATE_RAISED = 1 << 5,
    /* The text of the statement is invalid for the existing tables and functions. */
    SQLSTATE_TEXT = 1 << 6,
    /* The prepared statement is missing, or belongs to another session: it is prepared again. */
    SQLSTATE_STALE = 1 << 7,
    /* A migration that failed with this code may succeed if it is started again. */
    SQLSTATE_MIGRATION_LATER = 1 << 8,
    /* A migration waited too long for a lock: the host retries its steps. */
    SQLSTATE_MIGRATION_LOCKED = 1 << 9,
    /* Steps of a migration cannot share a transaction: the host runs each in a separate one. */
    SQLSTATE_MIGRATION_APART = 1 << 10,
};

struct sqlstate {
    const char *code; /* an SQLSTATE, or the beginning of several SQLSTATEs */
    unsigned flags;
    int status;       /* of the response; 0: it depends on the flags */
    const char *text; /* message for the client if there is a status */
};

extern const struct sqlstate sqlstate_table[]; /* the last row, "", is for unknown codes */

/* Returns the row for a code. The row for unknown codes, and for "", has no flags and no status. */
const struct sqlstate *sqlstate_of(const char *code);

/* Returns whether the code (NULL: none) has one of the flags. */
bool sqlstate_has(const char *code, unsigned flags);

#endif
