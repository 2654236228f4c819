/*
 * SQLSTATEs: what the codes of PostgreSQL's errors mean to the host. There is one table of them,
 * and every place that treats some errors differently from others looks them up in it. Any thread.
 */
#ifndef CORE_SQLSTATE_H
#define CORE_SQLSTATE_H

#include <stdbool.h>
#include <stddef.h>

enum sqlstate_flag {
    /* Trying again later may help, or an operator must act: the client waits. */
    SQLSTATE_PASSING = 1 << 0,
    /* A table, a column or the like is not there: while a migration runs, this is passing, too. */
    SQLSTATE_UNDEFINED = 1 << 1,
    /* Not logged as an error: a module may expect it, or the statement is sent again. */
    SQLSTATE_EXPECTED = 1 << 2,
    /* Transactions were in each other's way: the host tries the statement again at once. */
    SQLSTATE_AGAIN = 1 << 3,
    /* Another request stored the same before, so its answer may serve for this one. */
    SQLSTATE_CONFLICT = 1 << 4,
    /* A module's statement raised it by busbar_require(): the status follows the first two letters,
     * and the message is for the client. */
    SQLSTATE_RAISED = 1 << 5,
    /* The text of the statement is wrong for the tables and functions that there are. */
    SQLSTATE_TEXT = 1 << 6,
    /* The prepared statement is gone, or another session's: it is prepared again. */
    SQLSTATE_STALE = 1 << 7,
    /* A migration that met it may go well if it is started again. */
    SQLSTATE_MIGRATION_LATER = 1 << 8,
    /* A migration waited for a lock for too long: its steps are tried again. */
    SQLSTATE_MIGRATION_LOCKED = 1 << 9,
    /* Steps of a migration cannot share a transaction: each gets its own. */
    SQLSTATE_MIGRATION_APART = 1 << 10,
};

struct sqlstate {
    const char *code; /* five characters, or the first ones of several codes */
    unsigned flags;
    int status;       /* that the client gets; 0: it depends on the flags */
    const char *text; /* for the client, with a status */
};

/* Returns the meaning of a code. The empty code and unknown codes have neither flags nor a status.
 */
const struct sqlstate *sqlstate_of(const char *code);

/* Whether it has one of the flags. NULL: it has none. */
bool sqlstate_has(const char *code, unsigned flags);

/* The lines of the table in their order, the one for unknown codes last; how many in *count. */
const struct sqlstate *sqlstate_table(size_t *count);

#endif
