/* Internals of pg_script.h: the responses of the scripted PostgreSQL to each message. */
#ifndef TESTS_UNIT_PG_ANSWER_H
#define TESTS_UNIT_PG_ANSWER_H

#include "pg_script.h"

/* Responds to the first message in `bytes`; returns the message's length, or 0 if no message is
 * complete. */
size_t pg_answer_one(struct script_conn *conn, const char *bytes, size_t length);

/* Sends the pending bytes and closes the connection; in pg_script.c. */
void pg_script_hang_up(struct script_conn *conn);

#endif
