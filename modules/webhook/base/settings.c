/* The settings of a generation, in the units that the code uses. */
#include "modules/webhook/base/webhook.h"

/* The table in module.c bounds numbers; how many delays there may be stands there, too. */
static void read_delays(struct bb_host *host, struct schedule *schedule)
{
    const json_t *list = bb_setting_json(host, "retry_delays");
    size_t count = json_array_size(list);

    for (size_t i = 0; i < count && i < SCHEDULE_DELAYS_MAX; i++) {
        double seconds = json_number_value(json_array_get(list, i));

        schedule->delays_ms[schedule->delays++] = (int64_t)(seconds * 1000);
    }
}

static size_t size_of(struct bb_host *host, const char *name)
{
    return (size_t)bb_setting_int(host, name);
}

int webhook_settings_read(struct bb_host *host, struct webhook_settings *settings)
{
    char why[256];

    *settings = (struct webhook_settings){
        .transfers = {.timeout_ms = bb_setting_int(host, "timeout") * 1000,
                      .idle_ms = bb_setting_int(host, "connection_idle") * 1000,
                      .connections = size_of(host, "connections"),
                      .connections_per_receiver = size_of(host, "connections_per_receiver"),
                      .http2 = bb_setting_int(host, "http2") != 0},
        .max_age_ms = bb_setting_int(host, "max_age") * 3600 * 1000,
        .retention_days = bb_setting_int(host, "retention_days"),
        .slots = size_of(host, "slots"),
        .slots_per_webhook = size_of(host, "slots_per_webhook"),
        .memory = size_of(host, "memory") * 1024 * 1024,
        .queue_per_webhook = size_of(host, "queue_per_webhook"),
        .per_account = size_of(host, "per_account"),
        .tests = size_of(host, "tests"),
    };
    read_delays(host, &settings->schedule);
    if (target_rules_read(&settings->targets, bb_setting_json(host, "allow_networks"),
                          bb_setting_json(host, "allow_ports"),
                          bb_setting_json(host, "open_networks"), why, sizeof(why)))
        return bb_open_fail(host, "%s", why);
    return 0;
}
