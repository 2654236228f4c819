/* Inside of pg_script.h: what the scripted PostgreSQL answers to which message. */
#ifndef TESTS_UNIT_PG_ANSWER_H
#define TESTS_UNIT_PG_ANSWER_H

#include "pg_script.h"

/* Answers the first message of those that have come; its length, or 0: none is whole. */
size_t pg_answer_one(struct script_conn *conn, const char *bytes, size_t length);

/* pg_script.c: sends what was said, and says no more. */
void pg_script_hang_up(struct script_conn *conn);

#endif
