/* Messages that the scripted PostgreSQL (pg_script.h) sends; protocol version 3. */
#ifndef TESTS_UNIT_PG_SAY_H
#define TESTS_UNIT_PG_SAY_H

#include "pg_script.h"

/* Sends the messages that have been collected in conn->out. */
void pg_say_flush(struct script_conn *conn);

void pg_say(struct script_conn *conn, char type, const void *body, size_t length);

/* Accepts a client: settings, a key and the ready message. */
void pg_say_welcome(struct script_conn *conn, bool standby);
void pg_say_setting(struct script_conn *conn, const char *name, const char *value);

/* A warning changes no state. After an error, everything up to the Sync is skipped and an open
 * transaction has failed. */
void pg_say_warning(struct script_conn *conn, const char *sqlstate);
/* Warns that the wait for the synchronous standby was canceled. */
void pg_say_unreplicated(struct script_conn *conn);
void pg_say_error(struct script_conn *conn, bool fatal, const char *sqlstate);

/* A SELECT has one column of text; other statements have no columns. */
bool pg_say_is_select(const char *text);
void pg_say_columns(struct script_conn *conn);
void pg_say_row(struct script_conn *conn, const char *value);

#endif
