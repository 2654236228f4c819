/* The state of one generation, created by `open` and freed by `close`, and its metrics. */
#include "modules/common/array.h"
#include "modules/webhook/sender/sender.h"

/* Limit of lists with more than a page that are in progress, in total and per account. */
enum { LONG_LISTS = 16, LONG_LISTS_EACH = 4 };

/* The settings, converted to the units that the code uses. Returns 0, or -1 after bb_open_fail().
 */
static int read_settings(struct bb_host *host, struct webhook_settings *settings)
{
    const struct webhook_section *section = bb_settings(host);
    char why[256];

    *settings = (struct webhook_settings){
        .transfers = {.timeout_ms = section->timeout * 1000,
                      .idle_ms = section->connection_idle * 1000,
                      .connections = (size_t)section->connections,
                      .connections_per_receiver = (size_t)section->connections_per_receiver,
                      .http2 = section->http2},
        .max_age_ms = section->max_age * 3600 * 1000,
        .retention_days = section->retention_days,
        .slots = (size_t)section->slots,
        .slots_per_webhook = (size_t)section->slots_per_webhook,
        .memory = (size_t)section->memory * 1024 * 1024,
        .queue_per_webhook = (size_t)section->queue_per_webhook,
        .per_account = (size_t)section->per_account,
        .tests = (size_t)section->tests,
    };
    /* The table in module.c limits the numbers and the number of delays. */
    for (size_t i = 0; i < json_array_size(section->retry_delays) && i < RETRY_DELAYS_MAX; i++) {
        double seconds = json_number_value(json_array_get(section->retry_delays, i));

        settings->retry_delays.delays_ms[settings->retry_delays.count++] =
            (int64_t)(seconds * 1000);
    }
    if (target_rules_read(&settings->targets, section->allow_networks, section->allow_ports,
                          section->open_networks, why, sizeof(why)))
        return bb_open_fail(host, "%s", why);
    return 0;
}

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
    if (read_settings(host, &webhook->settings))
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
    const struct target_rules *targets = &((struct webhook *)state)->settings.targets;

    if (targets->network_count + targets->open_count > 0)
        bb_host_log(host, BB_INFO,
                    "webhook.allow_networks and webhook.open_networks let webhooks reach %zu "
                    "network(s) that are closed by default",
                    targets->network_count + targets->open_count);
}

/* ---- the metrics of the sender ---- */

static struct sender_counters counters_of(const struct webhook *webhook)
{
    struct sender_counters counters;

    sender_count(webhook->sender, &counters);
    return counters;
}

double webhook_now(void *state, size_t value)
{
    struct sender_counters counters = counters_of(state);

    return (double)(value == 0 ? counters.waiting : counters.in_flight);
}

double webhook_attempts(void *state, size_t value)
{
    struct sender_counters counters = counters_of(state);
    const int64_t outcomes[] = {counters.delivered, counters.retried, counters.abandoned};

    return (double)outcomes[value];
}

double webhook_lost_leases(void *state, size_t value)
{
    (void)value;
    return (double)counters_of(state).lost_leases;
}

double webhook_lag(void *state, size_t value)
{
    (void)value;
    return (double)counters_of(state).lag_ms / 1000;
}

double webhook_states(void *state, size_t value)
{
    return (double)counters_of(state).webhooks[value];
}

double webhook_expanding(void *state, size_t value)
{
    (void)value;
    return (double)counters_of(state).expanding;
}
