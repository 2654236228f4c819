#include "core/lib/host_settings.h"

#include <string.h>

#include "core/lib/field.h"

#ifndef BUSBAR_MODULES
#define BUSBAR_MODULES "/usr/local/lib/busbar/modules"
#endif

/* A row of each type, bound to the member of the same name. */
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ROW(section, key, kind, options, least, most, absent, text, ...)                           \
    {                                                                                              \
        .name = #key, .type = kind, .flags = options, .min = least, .max = most,                   \
        .fallback = absent, .help = text, .bind = BB_BIND(struct host_settings, section.key),      \
        __VA_ARGS__                                                                                \
    }
#define INT(section, key, options, least, most, absent, text)                                      \
    ROW(section, key, BB_INT, options, least, most, absent, text, .example = NULL)
#define BOOL(section, key, absent, text)                                                           \
    ROW(section, key, BB_BOOL, 0, 0, 0, absent, text, .example = NULL)
#define TEXT(section, key, options, most, absent, text, sample)                                    \
    ROW(section, key, BB_TEXT, options, 0, most, absent, text, .example = sample)
#define CHOICE(section, key, list, absent, text)                                                   \
    ROW(section, key, BB_CHOICE, 0, 0, 0, absent, text, .choices = list)
#define LIST(section, key, options, most, items, text, sample)                                     \
    ROW(section, key, BB_LIST, options, 0, most, "[]", text, .fields = BB_TABLE(items),            \
        .example = sample)
// NOLINTEND(bugprone-macro-parentheses)

static const struct bb_field text_item[] = {
    {.name = "item", .type = BB_TEXT, .min = 1, .max = 512}};
static const struct bb_field key_item[] = {
    {.name = "item", .type = BB_TEXT, .flags = BB_SECRET, .min = 64, .max = 64}};
static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const requests[] = {"all", "problems", "none", NULL};
static const char *const formats[] = {"logfmt", "json", NULL};

static const struct bb_field limit_fields[] = {
    {.name = "module", .type = BB_TEXT, .flags = BB_REQUIRED | BB_NOT_BLANK, .max = 64},
    {.name = "requests", .type = BB_INT, .min = 1, .max = 1000000},
    {.name = "cpu_time", .type = BB_INT, .min = 1, .max = 1000000},
    {.name = "database_time", .type = BB_INT, .min = 1, .max = 1000000},
};
static const struct bb_field limit_item[] = {
    {.name = "item", .type = BB_OBJECT, .fields = BB_TABLE(limit_fields)}};

static const struct bb_field root_fields[] = {
    TEXT(root, module_path, BB_NOT_BLANK, 4096, BUSBAR_MODULES,
         "Directory of the files of modules. A relative path is relative to the directory of the "
         "settings file.",
         NULL),
    LIST(root, modules, 0, 64, text_item,
         "Modules to load. A name stands for the file <module_path>/<name>.so; an entry with a "
         "slash is the path of a file.",
         "[auth, health]"),
    LIST(root, module_limits, 0, 64, limit_item,
         "Limits of single modules: `requests` in progress, and the milliseconds of `cpu_time` and "
         "`database_time` that the module may use in a second. Requests above a limit get 503. "
         "See operating.md.",
         "[{module: reports, requests: 16, cpu_time: 100}]"),
};

static const struct bb_field http_fields[] = {
    TEXT(http, listen, BB_NOT_BLANK | BB_RESTART, 255, "127.0.0.1:8080",
         "Address and port to listen on; for IPv6 in the form [address]:port. A host name means "
         "all addresses of this name.",
         "[::]:8080"),
    INT(http, loops, BB_RESTART, 0, 256, "0",
        "Number of event loops, each in a separate thread. 0: half the number of processors "
        "that the process may use."),
    INT(http, deadline, BB_MILLISECONDS, 50, 600000, "5000",
        "Milliseconds after which a request gets 503, unless its route sets another time."),
    INT(http, max_body, 0, 1024, 1073741824, "2097152",
        "Maximum size of a request body in bytes, unless the route sets another size. Requests "
        "with a larger body get 413."),
    INT(http, max_bodies, 0, 1048576, 1099511627776, "268435456",
        "Maximum total size, in bytes, of request bodies of 64 KiB and more in memory. An upload "
        "counts as 1 MiB. Further requests with such bodies get 503."),
    INT(http, max_answers, 0, 1048576, 1099511627776, "268435456",
        "Maximum total size, in bytes, of response bodies of 64 KiB and more in memory. A response "
        "counts until its client has read it. Further GET requests for such responses get 503."),
    INT(http, max_uploads, 0, 1048576, 1099511627776, "4294967296",
        "Maximum total size, in bytes, of unfinished uploads on disk. Further uploads get 503."),
    INT(http, client_percent, 0, 1, 100, "25",
        "Percentage of each shared limit that one owner may use at a time; further requests of the "
        "owner get 429. An owner is an account or, without a token, an address (IPv6: a /64 "
        "network)."),
    INT(http, bodies_per_account, 0, 0, 100, "0",
        "Percentage that replaces client_percent for max_bodies and max_answers. 0: client_percent "
        "applies."),
    INT(http, max_connections, BB_RESTART, 16, 1000000, "8192",
        "Maximum number of open connections. If it is reached, the host closes the oldest idle "
        "connection of the address with the most connections, to accept a new one."),
    INT(http, max_requests, 0, 16, 1000000, "2048",
        "Maximum number of requests in progress, not counting open streams and GET requests of "
        "routes without a token. Further requests get 503. Requests without a token may use half "
        "of this number."),
    INT(http, max_streams, 0, 0, 1000000, "4096",
        "Maximum number of open streams, which also count toward max_connections. Further requests "
        "for a stream get 503."),
    INT(http, connections_per_address, BB_RESTART, 0, 1000000, "0",
        "Maximum number of connections from one address (IPv6: a /64 network). Further connections "
        "are closed at once. 0: client_percent of max_connections. Connections from trusted "
        "proxies are not limited."),
    INT(http, header_timeout, BB_SECONDS, 1, 600, "15",
        "Seconds within which the headers of a request must arrive."),
    INT(http, body_timeout, BB_SECONDS, 1, 3600, "30",
        "Seconds within which the body of a request must arrive."),
    INT(http, idle_timeout, BB_RESTART | BB_SECONDS, 1, 3600, "75",
        "Seconds after which an idle connection is closed."),
    INT(http, write_timeout, BB_SECONDS, 1, 3600, "30",
        "Seconds within which a client must receive a response."),
    LIST(http, trusted_proxies, 0, 256, text_item,
         "Networks of the proxies whose header X-Forwarded-For the host trusts.",
         "[127.0.0.1, 10.0.0.0/8]"),
    LIST(http, metrics_networks, 0, 256, text_item,
         "Networks whose clients need no token for /metrics. Do not list a public proxy here, "
         "unless it is also in trusted_proxies.",
         "[127.0.0.1, 10.1.0.0/16]"),
    INT(http, slow_request, BB_MILLISECONDS, 0, 600000, "1000",
        "If the host works on a request for this many milliseconds, it logs the time spent in each "
        "stage. 0: never."),
    LIST(http, cors_origins, 0, 256, text_item,
         "Origins whose pages may use the API in a browser, exactly as in the header Origin.",
         "[https://platform.example.org]"),
};

static const struct bb_field database_fields[] = {
    TEXT(database, url, BB_SECRET | BB_RESTART, 4096, "dbname=busbar",
         "Connection string of libpq: key=value pairs, or a postgresql:// URL. Empty: no database, "
         "which is possible if no module needs one.",
         "host=/run/postgresql dbname=busbar user=busbar"),
    INT(database, read_connections, BB_RESTART, 1, 64, "2",
        "Number of connections of each loop for reads, which are sent in batches."),
    INT(database, write_connections, BB_RESTART, 1, 64, "2",
        "Number of connections of each loop for single statements that write. They are separate so "
        "that no read waits for a commit."),
    INT(database, unit_connections, BB_RESTART, 1, 64, "1",
        "Number of connections of each loop for units; the units of a batch share a commit."),
    INT(database, long_connections, BB_RESTART, 1, 64, "3",
        "Number of connections of each loop for statements that may take long."),
    INT(database, transaction_connections, BB_RESTART, 1, 64, "4",
        "Maximum number of connections of each loop for interactive transactions."),
    INT(database, queue, 0, 16, 1000000, "1024",
        "Maximum number of statements that wait for connections of one kind on one loop. Requests "
        "with further statements get 503."),
    INT(database, gather, 0, 1, 64, "64",
        "Maximum number of requests that share one execution of a statement that they run with "
        "different keys. 1: requests share no execution."),
    INT(database, statement_timeout, BB_RESTART | BB_MILLISECONDS, 50, 600000, "5000",
        "Milliseconds after which PostgreSQL cancels a statement."),
    INT(database, connect_timeout, BB_RESTART | BB_MILLISECONDS, 100, 60000, "3000",
        "Timeout in milliseconds for connecting to a server. It is rounded up to whole seconds, "
        "and is at least 2 seconds."),
    BOOL(database, migrate, "true",
         "Whether `busbar serve` applies missing migration steps. If false, run `busbar migrate`."),
};

static const struct bb_field redis_fields[] = {
    TEXT(redis, url, BB_SECRET | BB_RESTART, 4096, "",
         "Address of Redis: host:port, unix:/path, redis[s]://user:password@host:port/database, or "
         "redis[s]+sentinel://user:password@host:port,host:port/name/database with the addresses "
         "of Sentinels. rediss means TLS. Empty: no Redis; each host then counts failed logins "
         "separately.",
         "unix:/run/redis/redis.sock"),
    TEXT(redis, authorities, BB_RESTART, 4096, "",
         "PEM file of the authorities that may certify Redis and the Sentinels. Empty: the "
         "system's.",
         "/etc/busbar/redis-ca.pem"),
    INT(redis, timeout, BB_RESTART | BB_MILLISECONDS, 10, 10000, "200",
        "Timeout of a Redis command in milliseconds. If it expires, the request continues without "
        "Redis."),
};

static const struct bb_field secrets_fields[] = {
    LIST(secrets, keys, BB_SECRET, 16, key_item,
         "Keys that encrypt secrets in the database; each has 64 hexadecimal digits. The first key "
         "encrypts, and all keys decrypt. To change the key, insert the new key at the beginning, "
         "and remove the old key later.",
         "[\"${BUSBAR_SECRET_KEY}\"]"),
};

static const struct bb_field log_fields[] = {
    CHOICE(log, level, levels, "info", "Lowest level of the lines that are logged."),
    CHOICE(log, format, formats, "logfmt", "Format of log lines."),
    TEXT(log, file, BB_RESTART, 4096, "",
         "File to which the log is appended. A relative path is relative to the directory of the "
         "settings file. SIGUSR1 makes the host reopen the file. Empty: standard error.",
         "/var/log/busbar/busbar.log"),
    CHOICE(log, requests, requests, "all",
           "Which requests are logged: all, none, or problems. A request is a problem if it was "
           "slow (http.slow_request), got a status of 400 or more, or was aborted."),
    INT(log, sample, 0, 1, 1000000, "1",
        "With `requests: all` and a number N, the host logs one of N requests without a problem, "
        "and every request with a problem."),
    BOOL(log, access, "true", "false has the same effect as `requests: none`."),
};

static const struct bb_field control_fields[] = {
    TEXT(control, socket, BB_RESTART, 4096, CONTROL_SOCKET,
         "Unix socket through which `busbar reload` and `busbar status` connect to the host. A "
         "relative path is relative to the directory of the settings file. Empty: no socket. The "
         "variable $BUSBAR_CONTROL overrides the setting.",
         NULL),
};

static const struct bb_field reload_fields[] = {
    INT(reload, drain, BB_SECONDS, 1, 3600, "30",
        "Seconds after a reload within which requests of the previous configuration can finish."),
};

static const struct bb_field idempotency_fields[] = {
    INT(idempotency, hours, BB_HOURS, 1, 720, "24",
        "Hours for which the host keeps the response to a request with an Idempotency-Key."),
};

static const struct bb_field host_fields[] = {
    TEXT(host, state, 0, 200, "",
         "Directory for crash reports. A relative path is relative to the directory of the "
         "settings file. Empty: the directory in $STATE_DIRECTORY, which systemd sets. Without a "
         "directory, crashes are only logged.",
         "/var/lib/busbar"),
    INT(host, stall_timeout, BB_SECONDS, 0, 3600, "30",
        "If an event loop is blocked or a start hangs for this many seconds, the worker ends with "
        "a crash report. 0: never."),
    BOOL(host, quarantine, "true",
         "Whether a module that crashed three times within a minute is disabled until the next "
         "reload, together with the modules that need it."),
};

const struct host_section host_sections[] = {
    {SETTINGS_ROOT, "Settings at the top of the file, outside of any section.",
     BB_TABLE(root_fields)},
    {"http", "The HTTP server and its limits.", BB_TABLE(http_fields)},
    {"database", "Connections to PostgreSQL.", BB_TABLE(database_fields)},
    {"redis", "Redis, which holds small shared data that may be lost.", BB_TABLE(redis_fields)},
    {"secrets", "Keys that encrypt secrets in the database.", BB_TABLE(secrets_fields)},
    {"log", "The log, on standard error or in a file.", BB_TABLE(log_fields)},
    {"idempotency", "Requests with an Idempotency-Key.", BB_TABLE(idempotency_fields)},
    {"control", "The socket for commands to a running host.", BB_TABLE(control_fields)},
    {"host", "Handling of failing modules; see operating.md.", BB_TABLE(host_fields)},
    {"reload", "Reloads of the configuration.", BB_TABLE(reload_fields)},
};

const size_t host_section_count = sizeof host_sections / sizeof host_sections[0];

int host_settings_bind(struct settings *settings, struct setting_problems *problems)
{
    struct host_settings *host = arena_alloc(settings->arena, sizeof *host);
    size_t before = problems->count;

    if (!host)
        setting_problem(problems, "%s: out of memory", settings->path);
    for (size_t i = 0; host && i < host_section_count; i++) {
        const struct host_section *section = &host_sections[i];

        settings_bind(settings, section->name, &section->fields, problems);
        const struct setting_section *bound = settings_section(settings, section->name);

        if (bound)
            section_store(bound, host);
    }
    settings->host = host;
    return problems->count == before ? 0 : -1;
}

bool host_settings_own(const char *section)
{
    for (size_t i = 0; i < host_section_count; i++)
        if (!strcmp(host_sections[i].name, section))
            return true;
    return field_find(&host_sections[0].fields, section) != NULL;
}
