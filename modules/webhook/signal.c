/* The channel "webhook": what changed, on this host or another. Any thread. */
#include "webhook.h"

#include <string.h>

#include "sender.h"

int webhook_notify(struct bb_request *rq, struct bb_tx *tx, const char *payload)
{
    static const struct bb_sql notify = {"SELECT pg_notify('" WEBHOOK_CHANNEL "', $1::text)", 0};

    return bb_add(rq, tx, &notify, BB_ARGS(bb_t(payload))) < 0 ? -1 : 0;
}

#define QUEUED "queued:0" /* of any webhook */

void webhook_tell_queued(struct bb_request *rq)
{
    static const struct bb_sql tell = {"SELECT pg_notify('" WEBHOOK_CHANNEL "', '" QUEUED "')",
                                       BB_SQL_WRITE};

    if (!bb_query(rq, &tell, BB_NO_ARGS))
        bb_log(rq, BB_DEBUG, "other senders were not told of what waits");
}

int webhook_notify_queued(struct bb_request *rq, struct bb_tx *tx)
{
    return webhook_notify(rq, tx, QUEUED);
}

static bool names(const char *payload, const char *prefix, int64_t *webhook)
{
    size_t length = strlen(prefix);

    if (strncmp(payload, prefix, length) != 0)
        return false;
    *webhook = strtoll(payload + length, NULL, 10);
    return true;
}

void webhook_changed(struct webhook *webhook, const char *payload)
{
    int64_t id = 0;

    if (payload && names(payload, "queued:", &id))
        sender_look(webhook->sender, id);
    else if (payload && names(payload, "hook:", &id))
        sender_changed(webhook->sender, id);
    else if (payload && strcmp(payload, "paused") == 0)
        sender_pause(webhook->sender, true);
    else if (payload && strcmp(payload, "resumed") == 0)
        sender_pause(webhook->sender, false);
    else
        sender_changed(webhook->sender, 0);
}

void webhook_heard(void *state, const char *payload)
{
    webhook_changed(state, payload);
}
