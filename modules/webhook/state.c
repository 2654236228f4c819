/* The state of one generation, created by `open` and freed by `close`. */
#include "modules/webhook/module.h"

#include "modules/common/array.h"
#include "modules/webhook/sender/sender.h"

/* Limit of lists with more than a page that are in progress, in total and per account. */
enum { LONG_LISTS = 16, LONG_LISTS_EACH = 4 };

void webhook_close(struct bb_host *host, void *state)
{
    struct webhook *webhook = state;

    (void)host;
    sender_free(webhook->sender);
    target_rules_free(&webhook->settings.targets);
    slots_free(webhook->long_answers);
}

int webhook_open(struct bb_host *host, void **state)
{
    struct webhook *webhook = bb_host_alloc(host, sizeof(*webhook));

    if (!webhook)
        return bb_open_fail(host, "out of memory");
    if (webhook_settings_read(host, &webhook->settings))
        return -1;
    webhook->host = host;
    webhook->long_answers = slots_new(host, LONG_LISTS, LONG_LISTS_EACH, "long answers");
    webhook->testers = bb_host_alloc(host, webhook->settings.tests * sizeof(*webhook->testers));

    struct bb_service accounts = bb_service(host, "accounts");

    webhook->accounts = accounts.interface;
    webhook->accounts_state = accounts.state;
    webhook->sender = sender_new(host, &webhook->settings);
    if (!webhook->sender || !webhook->testers || !webhook->long_answers) {
        sender_free(webhook->sender);
        target_rules_free(&webhook->settings.targets);
        if (webhook->long_answers)
            slots_free(webhook->long_answers);
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
