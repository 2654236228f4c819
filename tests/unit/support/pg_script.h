/*
 * A PostgreSQL server inside a test, for behavior that a real server does not show on request. It
 * runs on the test's own loop, so nothing is racy: one thread, one order of events.
 *
 * By default it responds as PostgreSQL would: a SELECT returns one row, the text of the statement,
 * which shows whose response it is; transactions begin, fail and end; after an error everything up
 * to the Sync is skipped. A *script* lists the exceptions line by line: each line waits for a
 * message, is played once and does one thing. A script that was not played to its end fails the
 * test.
 */
#ifndef TESTS_UNIT_PG_SCRIPT_H
#define TESTS_UNIT_PG_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/lib/loop.h"

#define PG_SCRIPT_ADDRESS "127.0.0.2" /* not a client's address, so none can connect to itself */

/* The messages that lines wait for. A statement is bound before it is executed. */
enum script_when {
    SCRIPT_STARTUP = 'U',
    SCRIPT_PARSE = 'P',
    SCRIPT_BIND = 'B',
    SCRIPT_EXECUTE = 'E',
    SCRIPT_SYNC = 'S'
};

enum script_act {
    SCRIPT_USUAL,
    SCRIPT_ERROR,   /* an error with the SQLSTATE `say` (optionally a space and the PostgreSQL
                     * function that raised it); at a Sync, the error of the commit */
    SCRIPT_FATAL,   /* the same error, and the connection is closed */
    SCRIPT_CLOSE,   /* the first `bytes` of the usual response, then closes the connection */
    SCRIPT_STALL,   /* the first `bytes` of the usual response, then nothing more on this
                     * connection, ever */
    SCRIPT_NOTHING, /* no response; continues as if the response had been sent */
    SCRIPT_JUNK,    /* a message of an unknown type */
    SCRIPT_STATUS,  /* responds to a Sync with the status `say`: "T" or "E" */
    SCRIPT_SETTING, /* the usual response, and TimeZone becomes `say` */
    SCRIPT_ALONE,   /* the usual response, after the warning that no standby has confirmed it */
    SCRIPT_STARVE   /* the usual response; from now on arenas have no memory */
};

struct script_line {
    enum script_when when;
    const char *text; /* text that the statement contains; NULL: any */
    enum script_act act;
    const char *say;
    size_t bytes;
};

enum {
    SCRIPT_LINES = 16,
    SCRIPT_CONNS = 16,    /* maximum for a test in total */
    SCRIPT_PREPARED = 16, /* statements of a connection */
    SCRIPT_HEARD = 128,
    SCRIPT_BYTES = 16384 /* maximum of waiting messages, and of a response */
};

struct script_prepared {
    char name[32], text[128];
};

struct script_conn {
    struct watch watch; /* must be first */
    struct pg_script *script;
    unsigned number; /* from 1 */
    bool started, skips, silent, ended;
    char status; /* status of the transaction: I, T, E */
    const char *bound;
    struct script_prepared prepared[SCRIPT_PREPARED];
    size_t prepared_count;
    char in[SCRIPT_BYTES], out[SCRIPT_BYTES];
    size_t in_length, out_length;
};

/* A statement that was executed or failed in execution. */
struct script_heard {
    char text[128];
    unsigned conn; /* the connection that sent it */
};

struct pg_script {
    struct watch watch; /* must be first */
    struct loop *loop;
    unsigned port;
    bool standby; /* reports that it is a standby */
    bool mute;    /* sends nothing to clients that connect */
    struct script_line lines[SCRIPT_LINES];
    bool played[SCRIPT_LINES];
    size_t count;
    struct script_conn *conns; /* list, with numbers from 1 */
    unsigned accepted, started;
    unsigned syncs;
    struct script_heard heard[SCRIPT_HEARD];
    size_t heard_count;
};

/* Listens on a separate port. */
void pg_script_begin(struct pg_script *script, struct loop *loop);
/* Ends the server; fails the test if a line was not played. */
void pg_script_end(struct pg_script *script);

/* Adds a line to the script. */
void pg_script_add(struct pg_script *script, struct script_line line);

/* Stops the server: closes all connections and refuses new ones. */
void pg_script_go_away(struct pg_script *script);

/* Closes all connections with this SQLSTATE (NULL: without a message); accepts new ones. */
void pg_script_end_sessions(struct pg_script *script, const char *sqlstate);

/* Return how often statements with this text were executed; on which connection the last one
 * was. */
unsigned pg_script_times(const struct pg_script *script, const char *text);
unsigned pg_script_conn_of(const struct pg_script *script, const char *text);

/* Returns whether all lines have been played. */
bool pg_script_is_over(const struct pg_script *script);

/* While it is true, arenas have no memory when another source file calls them. */
extern bool starved;

#endif
