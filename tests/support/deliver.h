/*
 * Fixture of the suites of deliveries, on top of stage.h: a host with webhooks, and a conversation
 * whose messages are delivered.
 */
#ifndef TESTS_DELIVER_H
#define TESTS_DELIVER_H

#include "receive.h"
#include "stage.h"

/* Starts the suite's host on a new database of that name; call it in the set-up. */
void deliver_open(const char *name);

/* Posts a message to the conversation. */
void say(const char *entry);

/* Stops deliveries of later tests' messages to a test's webhook. */
void forget(const struct webhook_made *webhook);

/* Fails the test unless both signatures were made with this secret over the body as received. */
void expect_signed(const struct caught *caught, const char *secret);

#endif
