/*
 * The handlers of the channels "webhook", for changes on this host or another, and busbar_pause.
 * Any thread.
 */
#include "modules/webhook/api/api.h"

#include <string.h>

#include "modules/webhook/sender/sender.h"

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
        sender_scan(webhook->sender, id);
    else if (payload && names(payload, "hook:", &id))
        sender_changed(webhook->sender, id);
    else
        sender_changed(webhook->sender, 0);
}

/* After a gap the next heartbeat reads the state. */
void webhook_pause_heard(void *state, const char *payload)
{
    if (payload)
        sender_pause(((struct webhook *)state)->sender, strcmp(payload, "resumed") != 0);
}

void webhook_heard(void *state, const char *payload)
{
    webhook_changed(state, payload);
}
