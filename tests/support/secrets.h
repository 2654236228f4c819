/*
 * Data that must never be in a log: passwords, tokens, secrets and message texts. The client
 * records them as it sends and receives them; at the end of the run all logs are searched for them.
 */
#ifndef TESTS_SECRETS_H
#define TESTS_SECRETS_H

#include <jansson.h>

void secrets_open(const char *path);

/* Records a secret. Ignores secrets under 8 bytes and secrets of more than one line, because they
 * are too common or too long to search for. */
void secrets_add(const char *secret);

/* Records the values of keys like password, accessToken, secret and chatEntry, the latter from 24
 * bytes on: others may be in a log by chance. Each conversation of talk_start() has such a text. */
void secrets_add_json(const json_t *json);

/* Returns the lines of the run's logs that contain a recorded secret; "" if there are none. */
char *secrets_in_logs(void);

#endif
