#include "core/lib/sqlstate.h"

#include <string.h>

#define PASSING SQLSTATE_PASSING
#define LATER SQLSTATE_MIGRATION_LATER
#define LOCKED SQLSTATE_MIGRATION_LOCKED
#define APART SQLSTATE_MIGRATION_APART
#define TEXT SQLSTATE_TEXT
#define UNDEFINED (SQLSTATE_UNDEFINED | TEXT)
#define COLLISION (PASSING | LATER | SQLSTATE_EXPECTED | SQLSTATE_AGAIN)
#define UNSTORABLE 400, "The text has characters that cannot be stored"

/* An SQLSTATE matches the first row whose code it begins with, so a code comes before its class. */
const struct sqlstate sqlstate_table[] = {
    {"BB409", SQLSTATE_RAISED | SQLSTATE_EXPECTED | SQLSTATE_CONFLICT, 0, NULL},
    {"BB", SQLSTATE_RAISED | SQLSTATE_EXPECTED, 0, NULL},
    {"08", PASSING | LATER, 0, NULL}, /* connection lost */
    {"22021", 0, UNSTORABLE},         /* bytes are invalid in the encoding */
    {"22P05", 0, UNSTORABLE},
    {"23505", SQLSTATE_EXPECTED | SQLSTATE_CONFLICT, 409, "Already exists"},
    {"25006", PASSING | LATER, 0, NULL},                  /* read-only: the server is a standby */
    {"26000", SQLSTATE_STALE, 0, NULL},                   /* no such prepared statement */
    {"3F000", SQLSTATE_UNDEFINED, 0, NULL},               /* schema */
    {"40001", COLLISION, 0, NULL},                        /* serialization failure */
    {"40P01", COLLISION | LOCKED, 0, NULL},               /* deadlock */
    {"40", PASSING | LATER | SQLSTATE_EXPECTED, 0, NULL}, /* rolled back */
    {"42703", UNDEFINED, 0, NULL},                        /* column */
    {"42704", UNDEFINED, 0, NULL},                        /* type or other object */
    {"42883", UNDEFINED, 0, NULL},                        /* function */
    {"42P01", UNDEFINED, 0, NULL},                        /* table */
    {"42P05", TEXT | SQLSTATE_STALE, 0, NULL},    /* a prepared statement with this name exists */
    {"42", TEXT, 0, NULL},                        /* syntax, access, names */
    {"53200", PASSING | LATER | APART, 0, NULL},  /* no memory, or too many locks */
    {"53", PASSING | LATER, 0, NULL},             /* disk, memory, connections */
    {"55006", PASSING | APART, 0, NULL},          /* object in use */
    {"55P03", PASSING | LATER | LOCKED, 0, NULL}, /* lock_timeout */
    {"55P04", PASSING | APART, 0, NULL},          /* an enum value that is not committed */
    {"55", PASSING, 0, NULL},                     /* object not ready */
    {"57014", PASSING | LATER, 0, NULL},          /* statement_timeout, or cancelled */
    {"57P", PASSING | LATER, 0, NULL},            /* shutdown, crash, startup */
    {"57", PASSING, 0, NULL},                     /* operator intervention */
    {"58", PASSING, 0, NULL},                     /* system error, such as a failed read */
    {"", 0, 0, NULL},
};

const struct sqlstate *sqlstate_of(const char *code)
{
    const struct sqlstate *line = sqlstate_table;

    while (strncmp(code, line->code, strlen(line->code)) != 0)
        line++;
    return line;
}

bool sqlstate_has(const char *code, unsigned flags)
{
    return code && sqlstate_of(code)->flags & flags;
}
