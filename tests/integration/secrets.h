/*
 * What must never stand in a log: passwords, tokens, secrets and message texts. The client notes
 * them as it sends and receives them; at the end of the run all logs are searched for them.
 */
#ifndef TESTS_SECRETS_H
#define TESTS_SECRETS_H

#include <jansson.h>

void secrets_open(const char *path);

/*
 * Notes one; those under 8 bytes or of more than one line, and "undefined", are too common or too
 * long to look for.
 */
void secrets_add(const char *secret);

/* Notes the values of keys like password, accessToken, secret and chatEntry. */
void secrets_add_json(const json_t *json);

/* The lines of the run's logs that hold a noted secret; "" if none does. */
char *secrets_in_logs(void);

#endif
