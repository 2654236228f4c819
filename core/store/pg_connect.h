/*
 * Connects to PostgreSQL and checks the new session. Some connection poolers drop the options of a
 * connection, or give one session to several connections: statements would run without a time
 * limit, prepared statements and locks would belong to another connection, and notifications would
 * be lost.
 */
#ifndef CORE_PG_CONNECT_H
#define CORE_PG_CONNECT_H

#include <libpq-fe.h>

#include "core/lib/host_settings.h"
#include "core/store/dial.h"

struct pg_login {
    const char *url;
    const char *name;    /* application_name */
    const char *options; /* server options, in addition to the options of the url and the host */
    const char *mark;    /* a text that marks the session: letters, digits, blanks */
    unsigned
        connect_ms; /* limit for each server (rounded to seconds, at least 2), and for the check */
    unsigned statement_ms; /* statement_timeout that the session must have; 0: not checked */
    bool replica;          /* the server is a replica, whose address is not remembered */
};

/*
 * Connects to the first server that works, and checks the session; blocks. If `known`, connects
 * only to the server of the last connection, without looking up its name. Returns the connection,
 * or NULL with the reason. Any thread.
 */
PGconn *pg_connect(const struct pg_login *login, bool known, char problem[DIAL_PROBLEM]);

/*
 * Begins to connect on a helper thread to the replica with the URL `replica`, or, if it is NULL, to
 * the primary; see dial_new(). If the primary does not respond within a second, also tries the
 * address of the last connection, because the name server may be silent.
 */
struct dial *pg_dial(struct loop *loop, const struct host_settings *host, const char *replica,
                     const char *mark, dial_done *done, void *owner);

/* The problem reported for a session that several connections share. */
#define PG_SHARED                                                                                  \
    "a connection pooler gives one session to several connections: let it pool whole sessions "    \
    "(PgBouncer: pool_mode=session), or connect directly to PostgreSQL"

/* The end of a SELECT that returns rows only if the session has the mark; a printf() format. */
#define PG_WITH_MARK " WHERE current_setting('busbar.session', true) = '%s'"

/* Unsets PGTZ and PGDATESTYLE, which would override options. Call it before threads are created. */
void pg_clean_environment(void);

/*
 * Returns whether the notice reports that PostgreSQL stopped waiting for its synchronous standby.
 * In this case the transaction is committed only on this server, and a failover may lose it.
 */
bool pg_notice_is_unreplicated(const PGresult *notice);

/* Makes an error message one line: trims its end, and replaces control characters by blanks. */
void pg_one_line(char *text);

#endif
