#include "core/lib/host_settings.h"

#include <string.h>

#ifndef BUSBAR_MODULES
#define BUSBAR_MODULES "/usr/local/lib/busbar/modules"
#endif

static const struct bb_field text_item[] = {
    {.name = "item", .type = BB_TEXT, .min = 1, .max = 512}};
static const struct bb_field key_item[] = {
    {.name = "item", .type = BB_TEXT, .flags = BB_SECRET, .min = 64, .max = 64}};
static const char *const levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const requests[] = {"all", "problems", "none", NULL};
static const char *const formats[] = {"logfmt", "json", NULL};

static const struct bb_field root_fields[] = {
    {.name = "module_path",
     .type = BB_TEXT,
     .flags = BB_NOT_BLANK,
     .max = 4096,
     .fallback = BUSBAR_MODULES,
     .help = "Directory of the modules' files, relative to the settings file's directory."},
    {.name = "modules",
     .type = BB_LIST,
     .max = 64,
     .fields = BB_TABLE(text_item),
     .fallback = "[]",
     .help =
         "Modules to load. A name loads <module_path>/<name>.so; an entry with a slash is a path.",
     .example = "[auth, health]"},
};

static const struct bb_field http_fields[] = {
    {.name = "listen",
     .type = BB_TEXT,
     .flags = BB_NOT_BLANK | BB_RESTART,
     .max = 255,
     .fallback = "127.0.0.1:8080",
     .help = "Address and port to listen on, [address]:port for IPv6. A host name stands for all "
             "of its addresses.",
     .example = "[::]:8080"},
    {.name = "loops",
     .type = BB_INT,
     .flags = BB_RESTART,
     .max = 256,
     .fallback = "0",
     .help = "Event loops, each in a thread; 0: half as many as there are processors."},
    {.name = "deadline",
     .type = BB_INT,
     .flags = BB_MILLISECONDS,
     .min = 50,
     .max = 600000,
     .fallback = "5000",
     .help =
         "Milliseconds after which a request is answered 503, unless its route sets another time."},
    {.name = "max_body",
     .type = BB_INT,
     .min = 1024,
     .max = 1073741824,
     .fallback = "2097152",
     .help = "Largest body in bytes, unless the route sets another size. Larger ones are answered "
             "413."},
    {.name = "max_bodies",
     .type = BB_INT,
     .min = 1048576,
     .max = 1099511627776,
     .fallback = "268435456",
     .help = "Bytes of all bodies of 64 KiB and more in memory at a time; an upload counts as 1 "
             "MiB. More are answered 503."},
    {.name = "max_answers",
     .type = BB_INT,
     .min = 1048576,
     .max = 1099511627776,
     .fallback = "268435456",
     .help = "Bytes of all responses of 64 KiB and more in memory at a time, until clients have "
             "read them. Further GET requests for such responses are answered 503."},
    {.name = "max_uploads",
     .type = BB_INT,
     .min = 1048576,
     .max = 1099511627776,
     .fallback = "4294967296",
     .help = "Bytes on disk of all unfinished uploads. More are answered 503."},
    {.name = "client_percent",
     .type = BB_INT,
     .min = 1,
     .max = 100,
     .fallback = "25",
     .help = "Percentage of each shared limit that one account, or without a token one address "
             "(IPv6: one /64 network), may use at a time. More is answered 429."},
    {.name = "bodies_per_account",
     .type = BB_INT,
     .max = 100,
     .fallback = "0",
     .help = "Percentage for max_bodies and max_answers only; 0: the same as client_percent."},
    {.name = "max_connections",
     .type = BB_INT,
     .flags = BB_RESTART,
     .min = 16,
     .max = 1000000,
     .fallback = "8192",
     .help = "Connections open at a time. When all are in use, the oldest idle connection of the "
             "address with the most connections is closed to make room."},
    {.name = "max_requests",
     .type = BB_INT,
     .min = 16,
     .max = 1000000,
     .fallback = "2048",
     .help = "Requests in progress at a time, except public reads and open streams. More are "
             "answered 503. Requests without a token may use half of them."},
    {.name = "max_streams",
     .type = BB_INT,
     .max = 1000000,
     .fallback = "4096",
     .help = "Streams open at a time; they count toward max_connections. More are answered 503."},
    {.name = "connections_per_address",
     .type = BB_INT,
     .flags = BB_RESTART,
     .max = 1000000,
     .fallback = "0",
     .help = "Connections of one address (of IPv6: one network of 64 bits) at a time, more are "
             "closed at once; 0: http.client_percent of max_connections. Trusted proxies have no "
             "limit."},
    {.name = "header_timeout",
     .type = BB_INT,
     .flags = BB_SECONDS,
     .min = 1,
     .max = 600,
     .fallback = "15",
     .help = "Seconds for a request's headers to arrive."},
    {.name = "body_timeout",
     .type = BB_INT,
     .flags = BB_SECONDS,
     .min = 1,
     .max = 3600,
     .fallback = "30",
     .help = "Seconds for a request's body to arrive."},
    {.name = "idle_timeout",
     .type = BB_INT,
     .flags = BB_RESTART | BB_SECONDS,
     .min = 1,
     .max = 3600,
     .fallback = "75",
     .help = "Seconds that a connection may wait for its next request."},
    {.name = "write_timeout",
     .type = BB_INT,
     .flags = BB_SECONDS,
     .min = 1,
     .max = 3600,
     .fallback = "30",
     .help = "Seconds for a client to receive a response."},
    {.name = "trusted_proxies",
     .type = BB_LIST,
     .max = 256,
     .fields = BB_TABLE(text_item),
     .fallback = "[]",
     .help = "Networks of proxies whose X-Forwarded-For header is trusted.",
     .example = "[127.0.0.1, 10.0.0.0/8]"},
    {.name = "metrics_networks",
     .type = BB_LIST,
     .max = 256,
     .fields = BB_TABLE(text_item),
     .fallback = "[]",
     .help = "Networks whose clients need no token for /metrics. Do not include a public proxy, "
             "unless it is in trusted_proxies.",
     .example = "[127.0.0.1, 10.1.0.0/16]"},
    {.name = "slow_request",
     .type = BB_INT,
     .flags = BB_MILLISECONDS,
     .max = 600000,
     .fallback = "1000",
     .help = "Milliseconds of work after which a request is logged with the time spent in each "
             "stage; 0: never."},
    {.name = "cors_origins",
     .type = BB_LIST,
     .max = 256,
     .fields = BB_TABLE(text_item),
     .fallback = "[]",
     .help = "Origins that browsers may call from, exactly as in the Origin header.",
     .example = "[https://platform.example.org]"},
};

static const struct bb_field database_fields[] = {
    {.name = "url",
     .type = BB_TEXT,
     .flags = BB_SECRET | BB_RESTART,
     .max = 4096,
     .fallback = "dbname=busbar",
     .help = "Connection string of libpq: key=value pairs or a postgresql:// URL. Empty: no "
             "database, if no module needs one.",
     .example = "host=/run/postgresql dbname=busbar user=busbar"},
    {.name = "read_connections",
     .type = BB_INT,
     .flags = BB_RESTART,
     .min = 1,
     .max = 64,
     .fallback = "2",
     .help = "Pipelined connections of each loop for reads."},
    {.name = "write_connections",
     .type = BB_INT,
     .flags = BB_RESTART,
     .min = 1,
     .max = 64,
     .fallback = "2",
     .help = "Pipelined connections of each loop for single statements that write, so that no read "
             "waits for a commit."},
    {.name = "unit_connections",
     .type = BB_INT,
     .flags = BB_RESTART,
     .min = 1,
     .max = 64,
     .fallback = "1",
     .help = "Pipelined connections of each loop for units, which share commits."},
    {.name = "long_connections",
     .type = BB_INT,
     .flags = BB_RESTART,
     .min = 1,
     .max = 64,
     .fallback = "3",
     .help = "Connections of each loop for statements that may take long."},
    {.name = "transaction_connections",
     .type = BB_INT,
     .flags = BB_RESTART,
     .min = 1,
     .max = 64,
     .fallback = "4",
     .help = "Largest number of connections of each loop for interactive transactions."},
    {.name = "queue",
     .type = BB_INT,
     .min = 16,
     .max = 1000000,
     .fallback = "1024",
     .help = "Statements waiting for each kind of connection of a loop. More are answered 503."},
    {.name = "gather",
     .type = BB_INT,
     .min = 1,
     .max = 64,
     .fallback = "64",
     .help = "Requests that may share one execution of a statement that they run with different "
             "keys; 1: none are shared."},
    {.name = "statement_timeout",
     .type = BB_INT,
     .flags = BB_RESTART | BB_MILLISECONDS,
     .min = 50,
     .max = 600000,
     .fallback = "5000",
     .help = "Milliseconds after which PostgreSQL cancels a statement."},
    {.name = "connect_timeout",
     .type = BB_INT,
     .flags = BB_RESTART | BB_MILLISECONDS,
     .min = 100,
     .max = 60000,
     .fallback = "3000",
     .help = "Connect timeout for each server, rounded up to whole seconds, at least 2."},
    {.name = "migrate",
     .type = BB_BOOL,
     .fallback = "true",
     .help = "Whether `serve` applies missing migrations; if false, run `busbar migrate`."},
};

static const struct bb_field redis_fields[] = {
    {.name = "url",
     .type = BB_TEXT,
     .flags = BB_SECRET | BB_RESTART,
     .max = 4096,
     .fallback = "",
     .help =
         "host:port or unix:/path. Empty: no Redis; each host then throttles logins separately.",
     .example = "unix:/run/redis/redis.sock"},
    {.name = "timeout",
     .type = BB_INT,
     .flags = BB_RESTART | BB_MILLISECONDS,
     .min = 10,
     .max = 10000,
     .fallback = "200",
     .help = "Redis command timeout; when it expires, the request continues without Redis."},
};

static const struct bb_field secrets_fields[] = {
    {.name = "keys",
     .type = BB_LIST,
     .flags = BB_SECRET,
     .max = 16,
     .fields = BB_TABLE(key_item),
     .fallback = "[]",
     .help = "Keys that encrypt secrets in the database, 64 hexadecimal digits each. The first key "
             "encrypts, all keys decrypt: put a new key first, and remove the old one later.",
     .example = "[\"${BUSBAR_SECRET_KEY}\"]"},
};

static const struct bb_field log_fields[] = {
    {.name = "level",
     .type = BB_CHOICE,
     .choices = levels,
     .fallback = "info",
     .help = "Lowest level that is logged."},
    {.name = "format",
     .type = BB_CHOICE,
     .choices = formats,
     .fallback = "logfmt",
     .help = "Log format."},
    {.name = "file",
     .type = BB_TEXT,
     .flags = BB_RESTART,
     .max = 4096,
     .fallback = "",
     .help = "File to which the log is appended, relative to the settings file's directory; "
             "SIGUSR1 reopens it. Empty: standard error.",
     .example = "/var/log/busbar/busbar.log"},
    {.name = "requests",
     .type = BB_CHOICE,
     .choices = requests,
     .fallback = "all",
     .help = "Which requests get a line: all; problems, that is those that took as long as "
             "http.slow_request, were answered 400 or more, or were cut off; none."},
    {.name = "sample",
     .type = BB_INT,
     .min = 1,
     .max = 1000000,
     .fallback = "1",
     .help = "With requests: all, 1 of this number of requests without a problem gets a line; "
             "problems always do."},
    {.name = "access",
     .type = BB_BOOL,
     .fallback = "true",
     .help = "false is the same as requests: none."},
};

static const struct bb_field control_fields[] = {
    {.name = "socket",
     .type = BB_TEXT,
     .flags = BB_RESTART,
     .max = 4096,
     .fallback = CONTROL_SOCKET,
     .help =
         "Unix socket through which `busbar reload` and `busbar status` reach the host, relative "
         "to the settings file's directory. Empty: none. $BUSBAR_CONTROL overrides it."},
};

static const struct bb_field reload_fields[] = {
    {.name = "drain",
     .type = BB_INT,
     .flags = BB_SECONDS,
     .min = 1,
     .max = 3600,
     .fallback = "30",
     .help = "Seconds after a reload in which requests of the previous configuration may finish."},
};

static const struct bb_field idempotency_fields[] = {
    {.name = "hours",
     .type = BB_INT,
     .flags = BB_HOURS,
     .min = 1,
     .max = 720,
     .fallback = "24",
     .help = "Hours for which the response to an Idempotency-Key is kept."},
};

static const struct bb_field host_fields[] = {
    {.name = "state",
     .type = BB_TEXT,
     .max = 200,
     .fallback = "",
     .help = "Directory of crash reports, relative to the settings file's directory. Empty: "
             "$STATE_DIRECTORY (set by systemd); without that, crash reports are only logged.",
     .example = "/var/lib/busbar"},
    {.name = "stall_timeout",
     .type = BB_INT,
     .flags = BB_SECONDS,
     .max = 3600,
     .fallback = "30",
     .help = "Seconds after which a blocked event loop or a hanging startup ends the worker, with "
             "a crash report; 0: never."},
    {.name = "quarantine",
     .type = BB_BOOL,
     .fallback = "true",
     .help = "Whether a module that crashed three times within a minute is disabled until the next "
             "reload, together with the modules that need it."},
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
    size_t before = problems->count;

    for (size_t i = 0; i < host_section_count; i++)
        settings_bind(settings, host_sections[i].name, &host_sections[i].fields, problems);
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
