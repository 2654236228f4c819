/*
 * The host's own settings. Each section has a table, which is used to check the file and to
 * generate the reference (`busbar settings`, docs/configuration.md).
 */
#ifndef CORE_HOST_SETTINGS_H
#define CORE_HOST_SETTINGS_H

#include <busbar/field.h>

#include "core/lib/settings.h"

#define CONTROL_SOCKET "/run/busbar/control.sock" /* default of control.socket */

/* An absent or invalid setting is NULL, 0 or false. host_fields.tsv explains each setting. */
struct host_settings {
    struct {
        const char *module_path;
        json_t *modules, *module_limits;
    } root; /* settings without a section */
    struct {
        const char *listen;
        int64_t loops, deadline, max_body, max_bodies, max_answers, max_uploads, client_percent,
            bodies_per_account, max_connections, max_requests, max_streams, connections_per_address,
            header_timeout, body_timeout, idle_timeout, write_timeout, slow_request;
        json_t *trusted_proxies, *metrics_networks, *cors_origins;
    } http;
    struct {
        const char *url;
        int64_t read_connections, write_connections, unit_connections, long_connections,
            transaction_connections, queue, gather, statement_timeout, connect_timeout, replica_lag;
        json_t *replicas;
        bool migrate;
    } database;
    struct {
        const char *url, *authorities;
        int64_t timeout;
    } redis;
    struct {
        json_t *keys;
    } secrets;
    struct {
        const char *level, *format, *file, *requests;
        int64_t sample;
        bool access;
    } log;
    struct {
        int64_t hours;
    } idempotency;
    struct {
        const char *socket;
    } control;
    struct {
        const char *state;
        int64_t stall_timeout;
        bool quarantine;
    } host;
    struct {
        int64_t drain;
    } reload;
};

struct host_section {
    const char *name; /* SETTINGS_ROOT: settings without a section */
    const char *help;
    struct bb_table fields; /* rows: struct bb_field */
};

extern const struct host_section host_sections[];
extern const size_t host_section_count;

/* Binds all sections. Returns 0, or -1 after adding problems. */
int host_settings_bind(struct settings *settings, struct setting_problems *problems);

/* Returns whether a section belongs to the host, so that no module may have its name. */
bool host_settings_own(const char *section);

#endif
