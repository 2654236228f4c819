/* What the scripted PostgreSQL (pg_script.h) says: messages of its protocol, version 3. */
#ifndef TESTS_UNIT_PG_SAY_H
#define TESTS_UNIT_PG_SAY_H

#include "pg_script.h"

/* They gather in conn->out until this sends them. */
void pg_say_flush(struct script_conn *conn);

void pg_say(struct script_conn *conn, char type, const void *body, size_t length);

/* Whoever connects may come in: settings, a key and that it is ready. */
void pg_say_welcome(struct script_conn *conn, bool standby);
void pg_say_setting(struct script_conn *conn, const char *name, const char *value);

/* Behind it everything is skipped up to the Sync, and a transaction has failed. */
void pg_say_warning(struct script_conn *conn, const char *sqlstate);
/* The wait for the synchronous standby was canceled. */
void pg_say_unreplicated(struct script_conn *conn);
void pg_say_error(struct script_conn *conn, bool fatal, const char *sqlstate);

/* A SELECT has one column of text; nothing else has any. */
bool pg_say_is_select(const char *text);
void pg_say_columns(struct script_conn *conn);
void pg_say_row(struct script_conn *conn, const char *value);

#endif
