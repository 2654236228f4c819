/*
 * Connections to PostgreSQL: their parameters, and the check of a new session, because some
 * connection poolers drop the options of a connection, or give one session to several connections.
 * Then statements run without a time limit, prepared statements and locks belong to another
 * connection, and notifications are lost.
 */
#ifndef CORE_PG_CONNECT_H
#define CORE_PG_CONNECT_H

#include <libpq-fe.h>

#include "core/store/dial.h"

struct pg_login {
    const char *url;
    const char *name;      /* application_name */
    const char *options;   /* server options, in addition to the options of the url and the host */
    const char *mark;      /* set in the session: letters, digits, blanks */
    unsigned connect_ms;   /* for each server, in whole seconds, at least 2; and for the check */
    unsigned statement_ms; /* statement_timeout that the session must have; 0: is not checked */
};

/*
 * Connects to the first server that works, and checks the session; blocks. `known`: only to the
 * server of the last connection, without looking up its name. Returns the connection, or NULL with
 * the reason. Any thread.
 */
PGconn *pg_connect(const struct pg_login *login, bool known, char problem[DIAL_PROBLEM]);

/*
 * The same on a helper thread, see dial_new(). After a second, the known server is tried, too,
 * because the name server may be silent.
 */
struct pg_settings;
struct dial *pg_dial(struct loop *loop, const struct pg_settings *settings, const char *mark,
                     dial_done *done, void *owner);

/* The problem of a session that several connections share. */
#define PG_SHARED                                                                                  \
    "a connection pooler gives one session to several connections: let it pool whole sessions "    \
    "(PgBouncer: pool_mode=session), or connect to PostgreSQL itself"

/* Ends a SELECT with a condition (use as printf() format with the mark): the session has the mark.
 */
#define PG_WITH_MARK " WHERE current_setting('busbar.session', true) = '%s'"

/* Removes variables that libpq would send after the options. Call before threads are created. */
void pg_clean_environment(void);

/*
 * Whether the notice reports that PostgreSQL stopped waiting for its synchronous standby. The
 * transaction is then committed on this server only, and a failover may lose it.
 */
bool pg_notice_is_unreplicated(const PGresult *notice);

#endif
