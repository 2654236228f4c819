/* The settings of a generation, converted to the units that the code uses. */
#include "modules/webhook/base/webhook.h"

/* The table in module.c limits the numbers and the number of delays. */
static void read_delays(const json_t *list, struct schedule *schedule)
{
    size_t count = json_array_size(list);

    for (size_t i = 0; i < count && i < SCHEDULE_DELAYS_MAX; i++) {
        double seconds = json_number_value(json_array_get(list, i));

        schedule->delays_ms[schedule->delays++] = (int64_t)(seconds * 1000);
    }
}

int webhook_settings_read(struct bb_host *host, struct webhook_settings *settings)
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
    read_delays(section->retry_delays, &settings->schedule);
    if (target_rules_read(&settings->targets, section->allow_networks, section->allow_ports,
                          section->open_networks, why, sizeof(why)))
        return bb_open_fail(host, "%s", why);
    return 0;
}
