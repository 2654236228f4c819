/*
 * What the suites of deliveries stand on, above the stage: a host with webhooks, and a conversation
 * whose messages are delivered.
 */
#ifndef TESTS_DELIVER_H
#define TESTS_DELIVER_H

#include "receive.h"
#include "stage.h"

/* For a suite's set-up: its host, on a new database of that name. */
void deliver_open(const char *name);

/* A message of the conversation. */
void say(const char *entry);

/* Ends the interest of a test's webhook in what the next tests say. */
void forget(const struct webhook_made *webhook);

/* That both signatures are of this secret, over the body as it came. */
void expect_signed(const struct caught *caught, const char *secret);

#endif
