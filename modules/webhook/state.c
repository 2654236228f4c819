/* The state of one generation, created by `open` and freed by `close`. */
#include "modules/common/slots.h"
#include "modules/webhook/sender/sender.h"

enum {
    LONG_LISTS = 16,     /* lists of several pages in progress */
    LONG_LISTS_EACH = 4, /* lists of one account */
    POLLS = 1024,        /* waiting polls */
    POLLS_EACH = 64,     /* waiting polls of one account */
    TEST_SHARES = 16     /* an account may have this fraction of the waiting tests */
};

void webhook_close(struct bb_host *host, void *state)
{
    struct webhook *webhook = state;

    (void)host;
    sender_free(webhook->sender);
    target_rules_free(&webhook->targets);
    slots_free(webhook->long_answers);
    slots_free(webhook->tests);
    slots_free(webhook->polls);
    waiters_free(webhook->waiters);
}

int webhook_open(struct bb_host *host, void **state)
{
    const struct webhook_settings *settings = bb_settings(host);
    struct webhook *webhook = bb_host_alloc(host, sizeof(*webhook));
    struct bb_service accounts = bb_service(host, "accounts");
    char why[256];

    if (!webhook)
        return bb_open_fail(host, "out of memory");
    webhook->host = host;
    webhook->settings = settings;
    webhook->accounts = accounts.interface;
    webhook->accounts_state = accounts.state;
    /* The table of settings in module.c limits the delays and their number. */
    for (size_t i = 0; i < json_array_size(settings->retry_delays) && i < RETRY_DELAYS_MAX; i++)
        webhook->retry_delays.delays_ms[webhook->retry_delays.count++] =
            (int64_t)(json_number_value(json_array_get(settings->retry_delays, i)) * 1000);
    if (target_rules_read(&webhook->targets, settings->allow_networks, settings->allow_ports,
                          settings->open_networks, why, sizeof(why)))
        return bb_open_fail(host, "%s", why);
    webhook->long_answers = slots_new(host, LONG_LISTS, LONG_LISTS_EACH, "long answers");
    webhook->tests = slots_new(host, settings->tests,
                               (settings->tests + TEST_SHARES - 1) / TEST_SHARES, "tests");
    webhook->polls = slots_new(host, POLLS, POLLS_EACH, "polls");
    webhook->waiters = waiters_new(host);
    webhook->sender = sender_new(webhook);
    if (!webhook->sender || !webhook->tests || !webhook->long_answers || !webhook->polls ||
        !webhook->waiters) {
        webhook_close(host, webhook);
        return bb_open_fail(host, "out of memory");
    }
    *state = webhook;
    return 0;
}

void webhook_start(struct bb_host *host, void *state)
{
    const struct target_rules *targets = &((struct webhook *)state)->targets;

    if (targets->network_count + targets->open_count > 0)
        bb_host_log(host, BB_INFO,
                    "webhook.allow_networks and webhook.open_networks let webhooks reach %zu "
                    "network(s) that are closed by default",
                    targets->network_count + targets->open_count);
}
