/* The state of one generation: made by `open`, given back by `close`. */
#include "webhook.h"

#include "sender.h"

void webhook_close(struct bb_host *host, void *state)
{
    struct webhook *webhook = state;

    (void)host;
    sender_free(webhook->sender);
    target_rules_free(&webhook->settings.targets);
}

int webhook_open(struct bb_host *host, void **state)
{
    struct webhook *webhook = bb_host_alloc(host, sizeof(*webhook));

    if (!webhook)
        return bb_open_fail(host, "out of memory");
    if (webhook_settings_read(host, &webhook->settings))
        return -1;
    webhook->host = host;
    webhook->testers = bb_host_alloc(host, webhook->settings.tests * sizeof(*webhook->testers));

    struct bb_service accounts = bb_service(host, "accounts");

    webhook->accounts = accounts.interface;
    webhook->accounts_state = accounts.state;
    webhook->sender = sender_new(host, &webhook->settings);
    if (!webhook->sender || !webhook->testers) {
        sender_free(webhook->sender);
        target_rules_free(&webhook->settings.targets);
        return bb_open_fail(host, "out of memory");
    }
    *state = webhook;
    return 0;
}

void webhook_start(struct bb_host *host, void *state)
{
    const struct webhook *webhook = state;

    const struct target_rules *targets = &webhook->settings.targets;

    if (targets->network_count + targets->open_count > 0)
        bb_host_log(host, BB_INFO,
                    "webhook.allow_networks and webhook.open_networks let webhooks reach %zu "
                    "network(s) that are closed by default",
                    targets->network_count + targets->open_count);
}
