#include "core/lib/host_settings.h"

#include <string.h>

#ifndef BUSBAR_MODULES
#define BUSBAR_MODULES "/usr/local/lib/busbar/modules"
#endif

/* A row of each type, bound to the member of the same name. */
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ROW(section, key, kind, options, least, most, absent, text)                                \
    .name = #key, .type = kind, .flags = options, .min = least, .max = most, .fallback = absent,   \
    .help = text, .bind = BB_BIND(struct host_settings, section.key)
#define INT(section, key, options, least, most, absent, text)                                      \
    {                                                                                              \
        ROW(section, key, BB_INT, options, least, most, absent, text)                              \
    }
#define BOOL(section, key, absent, text)                                                           \
    {                                                                                              \
        ROW(section, key, BB_BOOL, 0, 0, 0, absent, text)                                          \
    }
#define TEXT(section, key, options, most, absent, text, sample)                                    \
    {                                                                                              \
        ROW(section, key, BB_TEXT, options, 0, most, absent, text), .example = sample              \
    }
#define CHOICE(section, key, list, absent, text)                                                   \
    {                                                                                              \
        ROW(section, key, BB_CHOICE, 0, 0, 0, absent, text), .choices = list                       \
    }
#define LIST(section, key, options, most, items, text, sample)                                     \
    {                                                                                              \
        ROW(section, key, BB_LIST, options, 0, most, "[]", text), .fields = BB_TABLE(items),       \
                                                                  .example = sample                \
    }
// NOLINTEND(bugprone-macro-parentheses)

static const struct bb_field text_item[] = {
    {.name = "item", .type = BB_TEXT, .min = 1, .max = 512}};
static const struct bb_field key_item[] = {
    {.name = "item", .type = BB_TEXT, .flags = BB_SECRET, .min = 64, .max = 64}};
static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const requests[] = {"all", "problems", "none", NULL};
static const char *const formats[] = {"logfmt", "json", NULL};

static const struct bb_field root_fields[] = {
    TEXT(root, module_path, BB_NOT_BLANK, 4096, BUSBAR_MODULES,
         "Directory of the modules' files, relative to the settings file's directory.", NULL),
    LIST(root, modules, 0, 64, text_item,
         "Modules to load. A name loads <module_path>/<name>.so; an entry with a slash is a path.",
         "[auth, health]"),
};

static const struct bb_field http_fields[] = {
    TEXT(http, listen, BB_NOT_BLANK | BB_RESTART, 255, "127.0.0.1:8080",
         "Address and port to listen on, [address]:port for IPv6. A host name stands for all of "
         "its addresses.",
         "[::]:8080"),
    INT(http, loops, BB_RESTART, 0, 256, "0",
        "Event loops, each in a thread; 0: half as many as there are processors."),
    INT(http, deadline, BB_MILLISECONDS, 50, 600000, "5000",
        "Milliseconds after which a request is answered 503, unless its route sets another time."),
    INT(http, max_body, 0, 1024, 1073741824, "2097152",
        "Largest body in bytes, unless the route sets another size. Larger ones are answered 413."),
    INT(http, max_bodies, 0, 1048576, 1099511627776, "268435456",
        "Bytes of all bodies of 64 KiB and more in memory at a time; an upload counts as 1 MiB. "
        "More are answered 503."),
    INT(http, max_answers, 0, 1048576, 1099511627776, "268435456",
        "Bytes of all responses of 64 KiB and more in memory at a time, until clients have read "
        "them. Further GET requests for such responses are answered 503."),
    INT(http, max_uploads, 0, 1048576, 1099511627776, "4294967296",
        "Bytes on disk of all unfinished uploads. More are answered 503."),
    INT(http, client_percent, 0, 1, 100, "25",
        "Percentage of each shared limit that one account, or without a token one address (IPv6: "
        "one /64 network), may use at a time. More is answered 429."),
    INT(http, bodies_per_account, 0, 0, 100, "0",
        "Percentage for max_bodies and max_answers only; 0: the same as client_percent."),
    INT(http, max_connections, BB_RESTART, 16, 1000000, "8192",
        "Connections open at a time. When all are in use, the oldest idle connection of the "
        "address with the most connections is closed to make room."),
    INT(http, max_requests, 0, 16, 1000000, "2048",
        "Requests in progress at a time, except public reads and open streams. More are answered "
        "503. Requests without a token may use half of them."),
    INT(http, max_streams, 0, 0, 1000000, "4096",
        "Streams open at a time; they count toward max_connections. More are answered 503."),
    INT(http, connections_per_address, BB_RESTART, 0, 1000000, "0",
        "Connections of one address (of IPv6: one network of 64 bits) at a time, more are closed "
        "at once; 0: http.client_percent of max_connections. Trusted proxies have no limit."),
    INT(http, header_timeout, BB_SECONDS, 1, 600, "15",
        "Seconds for a request's headers to arrive."),
    INT(http, body_timeout, BB_SECONDS, 1, 3600, "30", "Seconds for a request's body to arrive."),
    INT(http, idle_timeout, BB_RESTART | BB_SECONDS, 1, 3600, "75",
        "Seconds that a connection may wait for its next request."),
    INT(http, write_timeout, BB_SECONDS, 1, 3600, "30",
        "Seconds for a client to receive a response."),
    LIST(http, trusted_proxies, 0, 256, text_item,
         "Networks of proxies whose X-Forwarded-For header is trusted.", "[127.0.0.1, 10.0.0.0/8]"),
    LIST(http, metrics_networks, 0, 256, text_item,
         "Networks whose clients need no token for /metrics. Do not include a public proxy, unless "
         "it is in trusted_proxies.",
         "[127.0.0.1, 10.1.0.0/16]"),
    INT(http, slow_request, BB_MILLISECONDS, 0, 600000, "1000",
        "Milliseconds of work after which a request is logged with the time spent in each stage; "
        "0: never."),
    LIST(http, cors_origins, 0, 256, text_item,
         "Origins that browsers may call from, exactly as in the Origin header.",
         "[https://platform.example.org]"),
};

static const struct bb_field database_fields[] = {
    TEXT(database, url, BB_SECRET | BB_RESTART, 4096, "dbname=busbar",
         "Connection string of libpq: key=value pairs or a postgresql:// URL. Empty: no database, "
         "if no module needs one.",
         "host=/run/postgresql dbname=busbar user=busbar"),
    INT(database, read_connections, BB_RESTART, 1, 64, "2",
        "Pipelined connections of each loop for reads."),
    INT(database, write_connections, BB_RESTART, 1, 64, "2",
        "Pipelined connections of each loop for single statements that write, so that no read "
        "waits for a commit."),
    INT(database, unit_connections, BB_RESTART, 1, 64, "1",
        "Pipelined connections of each loop for units, which share commits."),
    INT(database, long_connections, BB_RESTART, 1, 64, "3",
        "Connections of each loop for statements that may take long."),
    INT(database, transaction_connections, BB_RESTART, 1, 64, "4",
        "Largest number of connections of each loop for interactive transactions."),
    INT(database, queue, 0, 16, 1000000, "1024",
        "Statements waiting for each kind of connection of a loop. More are answered 503."),
    INT(database, gather, 0, 1, 64, "64",
        "Requests that may share one execution of a statement that they run with different keys; "
        "1: none are shared."),
    INT(database, statement_timeout, BB_RESTART | BB_MILLISECONDS, 50, 600000, "5000",
        "Milliseconds after which PostgreSQL cancels a statement."),
    INT(database, connect_timeout, BB_RESTART | BB_MILLISECONDS, 100, 60000, "3000",
        "Connect timeout for each server, rounded up to whole seconds, at least 2."),
    BOOL(database, migrate, "true",
         "Whether `serve` applies missing migrations; if false, run `busbar migrate`."),
};

static const struct bb_field redis_fields[] = {
    TEXT(redis, url, BB_SECRET | BB_RESTART, 4096, "",
         "host:port or unix:/path. Empty: no Redis; each host then throttles logins separately.",
         "unix:/run/redis/redis.sock"),
    INT(redis, timeout, BB_RESTART | BB_MILLISECONDS, 10, 10000, "200",
        "Redis command timeout; when it expires, the request continues without Redis."),
};

static const struct bb_field secrets_fields[] = {
    LIST(secrets, keys, BB_SECRET, 16, key_item,
         "Keys that encrypt secrets in the database, 64 hexadecimal digits each. The first key "
         "encrypts, all keys decrypt: put a new key first, and remove the old one later.",
         "[\"${BUSBAR_SECRET_KEY}\"]"),
};

static const struct bb_field log_fields[] = {
    CHOICE(log, level, levels, "info", "Lowest level that is logged."),
    CHOICE(log, format, formats, "logfmt", "Log format."),
    TEXT(log, file, BB_RESTART, 4096, "",
         "File to which the log is appended, relative to the settings file's directory; SIGUSR1 "
         "reopens it. Empty: standard error.",
         "/var/log/busbar/busbar.log"),
    CHOICE(log, requests, requests, "all",
           "Which requests get a line: all; problems, that is those that took as long as "
           "http.slow_request, were answered 400 or more, or were cut off; none."),
    INT(log, sample, 0, 1, 1000000, "1",
        "With requests: all, 1 of this number of requests without a problem gets a line; problems "
        "always do."),
    BOOL(log, access, "true", "false is the same as requests: none."),
};

static const struct bb_field control_fields[] = {
    TEXT(control, socket, BB_RESTART, 4096, CONTROL_SOCKET,
         "Unix socket through which `busbar reload` and `busbar status` reach the host, relative "
         "to the settings file's directory. Empty: none. $BUSBAR_CONTROL overrides it.",
         NULL),
};

static const struct bb_field reload_fields[] = {
    INT(reload, drain, BB_SECONDS, 1, 3600, "30",
        "Seconds after a reload in which requests of the previous configuration may finish."),
};

static const struct bb_field idempotency_fields[] = {
    INT(idempotency, hours, BB_HOURS, 1, 720, "24",
        "Hours for which the response to an Idempotency-Key is kept."),
};

static const struct bb_field host_fields[] = {
    TEXT(host, state, 0, 200, "",
         "Directory of crash reports, relative to the settings file's directory. Empty: "
         "$STATE_DIRECTORY (set by systemd); without that, crash reports are only logged.",
         "/var/lib/busbar"),
    INT(host, stall_timeout, BB_SECONDS, 0, 3600, "30",
        "Seconds after which a blocked event loop or a hanging startup ends the worker, with a "
        "crash report; 0: never."),
    BOOL(host, quarantine, "true",
         "Whether a module that crashed three times within a minute is disabled until the next "
         "reload, together with the modules that need it."),
};

const struct host_section host_sections[] = {
    {SETTINGS_ROOT, "At the top of the file.", BB_TABLE(root_fields)},
    {"http", "The listener and its limits.", BB_TABLE(http_fields)},
    {"database", "PostgreSQL.", BB_TABLE(database_fields)},
    {"redis", "Redis holds small shared data that may be lost.", BB_TABLE(redis_fields)},
    {"secrets", "Secrets at rest.", BB_TABLE(secrets_fields)},
    {"log", "The log, on standard error or in a file.", BB_TABLE(log_fields)},
    {"idempotency", "Requests that carry an Idempotency-Key.", BB_TABLE(idempotency_fields)},
    {"control", "Reloading and watching a running host.", BB_TABLE(control_fields)},
    {"host", "Handling of failing modules; see operating.md.", BB_TABLE(host_fields)},
    {"reload", "Reloading the configuration while serving.", BB_TABLE(reload_fields)},
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
    for (size_t i = 0; i < sizeof root_fields / sizeof root_fields[0]; i++)
        if (!strcmp(root_fields[i].name, section))
            return true;
    return false;
}
