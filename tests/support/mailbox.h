/* An SMTP server (tests/smtp/server.py) that keeps the mails that it gets. */
#ifndef TESTS_MAILBOX_H
#define TESTS_MAILBOX_H

#include "harness.h"

struct mailbox {
    pid_t pid;
    int port;
    const char *directory, *log;
};

/* Returns a mailbox on a free port; the server is not started yet. */
struct mailbox *mailbox_make(const char *name);

/* Starts the server with these options of server.py, and waits until it accepts connections. */
void mailbox_run(struct mailbox *mailbox, const char *options);
void mailbox_stop(struct mailbox *mailbox);

/* Returns the section `mail` for a host: without TLS, with retries after a second, and with these
 * lines (NULL: none). */
char *mailbox_section(const struct mailbox *mailbox, const char *more);

/* Returns the number of mails to an address (NULL: to any). */
size_t mailbox_count(const struct mailbox *mailbox, const char *to);

/* Waits for this many mails to an address, and returns the last one: an object with from, to,
 * headers, body, raw, tls and login. */
const json_t *mailbox_wait(const struct mailbox *mailbox, const char *to, size_t count);

/* Return a header of a mail, its body, and the token in its body. The token must not be in a log.
 */
const char *mail_header(const json_t *mail, const char *name);
const char *mail_body(const json_t *mail);
const char *mail_token(const json_t *mail);

#endif
