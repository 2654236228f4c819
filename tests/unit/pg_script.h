/*
 * A PostgreSQL server inside of a test, for what no real one does when it is told to. It turns on
 * the loop of the test itself, so that nothing is raced: one thread, one order of events.
 *
 * By itself it answers as PostgreSQL would: a SELECT has one row, which is the text of the
 * statement, so that one sees whose answer it is; transactions begin, fail and end; behind an error
 * everything is skipped up to the Sync. A *script* says what goes otherwise, line by line: each
 * line waits for a message, is played once and does one thing. A script that was not played to its
 * end fails the test.
 */
#ifndef TESTS_UNIT_PG_SCRIPT_H
#define TESTS_UNIT_PG_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#include "core/loop/loop.h"

#define PG_SCRIPT_ADDRESS "127.0.0.2" /* no client has it, so that none can connect to itself */

/* The messages that lines wait for; a statement is bound before it is executed. */
enum script_when {
    SCRIPT_STARTUP = 'U',
    SCRIPT_PARSE = 'P',
    SCRIPT_BIND = 'B',
    SCRIPT_EXECUTE = 'E',
    SCRIPT_SYNC = 'S'
};

enum script_act {
    SCRIPT_USUAL,
    SCRIPT_ERROR,   /* an error with the SQLSTATE `say` (and a blank and the function of PostgreSQL
                       that raised it); at a Sync, the commit's */
    SCRIPT_FATAL,   /* the same, and the connection is closed */
    SCRIPT_CLOSE,   /* the first `bytes` of the usual answer, and the connection is closed */
    SCRIPT_STALL,   /* the first `bytes` of it, and nothing more on this connection, ever */
    SCRIPT_NOTHING, /* no answer, as if it had come to that of the next message */
    SCRIPT_JUNK,    /* a message of no type that there is */
    SCRIPT_STATUS,  /* a Sync is answered with the status `say`: "T", "E" */
    SCRIPT_SETTING, /* the usual answer, and TimeZone has become `say` */
    SCRIPT_ALONE,   /* the usual answer, after the warning that no standby has confirmed it */
    SCRIPT_STARVE   /* the usual answer, and from now on arenas have no memory: starve.h */
};

struct script_line {
    enum script_when when;
    const char *text; /* is in the statement; NULL: any */
    enum script_act act;
    const char *say;
    size_t bytes;
};

enum {
    SCRIPT_LINES = 16,
    SCRIPT_CONNS = 16,    /* that a test may make, one after the other */
    SCRIPT_PREPARED = 16, /* statements of a connection */
    SCRIPT_HEARD = 128,
    SCRIPT_BYTES = 16384 /* of messages that wait, and of an answer */
};

struct script_prepared {
    char name[32], text[128];
};

struct script_conn {
    struct watch watch; /* first */
    struct pg_script *script;
    unsigned number; /* 1: the first */
    bool started, skips, silent, ended;
    char status; /* of the transaction: I, T, E */
    const char *bound;
    struct script_prepared prepared[SCRIPT_PREPARED];
    size_t prepared_count;
    char in[SCRIPT_BYTES], out[SCRIPT_BYTES];
    size_t in_length, out_length;
};

/* A statement that was executed, or failed when it was. */
struct script_heard {
    char text[128];
    unsigned conn; /* by which connection */
};

struct pg_script {
    struct watch watch; /* first */
    struct loop *loop;
    unsigned port;
    bool standby; /* says so to who connects */
    bool mute;    /* says nothing to who connects */
    struct script_line lines[SCRIPT_LINES];
    bool played[SCRIPT_LINES];
    size_t count;
    struct script_conn *conns; /* by number, from 1 */
    unsigned accepted, started;
    unsigned syncs;
    struct script_heard heard[SCRIPT_HEARD];
    size_t heard_count;
};

/* Listens on a port of its own. */
void pg_script_begin(struct pg_script *script, struct loop *loop);
/* Ends it, and fails where a line was not played. */
void pg_script_end(struct pg_script *script);

/* One line more. */
void pg_script_add(struct pg_script *script, struct script_line line);

/* The server is gone: all connections are closed, and who comes is refused. */
void pg_script_go_away(struct pg_script *script);

/* All connections are closed, with this SQLSTATE (NULL: without a word); who comes is let in. */
void pg_script_end_sessions(struct pg_script *script, const char *sqlstate);

/* How often statements with this text in them were executed, and by which connection the last time.
 */
unsigned pg_script_times(const struct pg_script *script, const char *text);
unsigned pg_script_conn_of(const struct pg_script *script, const char *text);

/* Whether all lines have been played. */
bool pg_script_is_over(const struct pg_script *script);

#endif
