/*
 * mail: sends the mails of other modules over SMTP.
 *
 * The service "mail" writes a mail to the outbox, a table, in the caller's transaction. On each
 * host a worker takes the mails that are due, one at a time, and sends them. The statement that
 * reads a mail also sets the time of the next attempt. So no other host sends the mail at the same
 * time, and another attempt is made if the host dies. If the host dies after the server has
 * accepted the mail, but before the row was deleted, the mail is sent twice with the same
 * Message-ID.
 */
#ifndef MAIL_MAIL_H
#define MAIL_MAIL_H

#include <stdatomic.h>

#include <busbar/busbar.h>

#define MAIL_WORKER "sender"

/* The settings, in the units of the table in module.c. */
struct mail_settings {
    const char *server, *tls, *authorities, *user, *password;
    const char *from, *from_name, *language;
    int64_t port, timeout, retry_delay, max_age, queue;
    bool webhooks;
};

/* The state of the module. Each reload of the configuration creates another one. */
struct mail {
    struct bb_host *host;
    const struct mail_settings *settings;
    atomic_llong waiting; /* mails in the outbox, as last counted */
};

/* In the order of the metric's values in module.c. */
enum mail_metric { MAIL_METRIC_MAILS };
enum mail_outcome { MAIL_QUEUED, MAIL_SENT, MAIL_RETRIED, MAIL_ABANDONED, MAIL_DROPPED };

/* ---- outbox.c ---- */

extern const struct bb_mail mail_service;

void mail_work(struct bb_worker_context *context);

/* The command `busbar mail test`. */
int mail_command_test(struct bb_request *rq);

/* ---- notices.c ---- */

/* The hook on events about webhooks: queues a mail to the webhook's owner. */
int mail_within(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event, void *state);

#endif
