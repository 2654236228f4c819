/*
 * Fixture of the suites of deliveries, on top of stage.h: a host with webhooks, and a conversation
 * whose messages are delivered.
 */
#ifndef TESTS_DELIVER_H
#define TESTS_DELIVER_H

#include "receive.h"
#include "stage.h"

extern struct talk deliver_talk; /* the conversation */

/* Starts the suite's host on a new database of that name. `more` is appended to the section
 * webhook, as lines that begin with two spaces. */
void deliver_open(const char *name, const char *more);

/* Like STAGE_SUITE(), with a host of the suite's name and these settings. After each test its
 * webhooks are deleted, so that they do not get the messages of later tests. */
#define DELIVER_SUITE(name, more, seconds_each)                                                    \
    static void name##_set_up(void)                                                                \
    {                                                                                              \
        deliver_open(#name, more);                                                                 \
    }                                                                                              \
    SUITE(name, .timeout_s = (seconds_each), .before_all = name##_set_up,                          \
          .before_each = stage_connect, .after_each = deliver_close)
void deliver_close(void);

/* Replaces the suite's host, conversation and database by new ones in this test, which may kill the
 * host and must end it. */
void deliver_apart(const char *name, const char *more);

/* Starts another host on the database. */
struct host *deliver_another(const char *name);

/* Waits until each of two hosts has 32 shards in a row: the first host keeps the lower ones. */
void deliver_await_halves(void);

/* Waits until the sender knows that deliveries which a test has stored may have results. */
void deliver_await_cursor(int64_t webhook);

/* Posts a message to the conversation. */
void say(const char *entry);

/* Posts a message, waits until its delivery to the webhook has that status, and returns it. */
json_t *say_until(const struct webhook_made *made, const char *entry, const char *status);

/* Creates a webhook of the Admin for message.new. */
struct webhook_made hook_to(const struct catcher *catcher);

/* Fails the test unless both signatures were made with this secret over the body as received. */
void expect_signed(const struct caught *caught, const char *secret);

#endif
