#include "core/settings/host_settings.h"

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
     .help = "Directory of the modules' files; from the settings file's directory if relative."},
    {.name = "modules",
     .type = BB_LIST,
     .max = 64,
     .fields = BB_TABLE(text_item),
     .fallback = "[]",
     .help = "Modules to load: a name is <module_path>/<name>.so, an entry with a slash a path.",
     .example = "[auth, health]"},
};

static const struct bb_field http_fields[] = {
    {.name = "listen",
     .type = BB_TEXT,
     .flags = BB_NOT_BLANK | BB_RESTART,
     .max = 255,
     .fallback = "127.0.0.1:8080",
     .help = "Address and port, [address]:port for IPv6; of a name every address.",
     .example = "[::]:8080"},
    {.name = "loops",
     .type = BB_INT,
     .flags = BB_RESTART,
     .max = 256,
     .fallback = "0",
     .help = "Event loops, each a thread; 0: half as many as there are processors."},
    {.name = "deadline",
     .type = BB_INT,
     .flags = BB_MILLISECONDS,
     .min = 50,
     .max = 600000,
     .fallback = "5000",
     .help = "Milliseconds after which a request is answered 503, unless its route says other."},
    {.name = "max_body",
     .type = BB_INT,
     .min = 1024,
     .max = 1073741824,
     .fallback = "2097152",
     .help = "Largest body in bytes, unless the route says other; more is answered 413."},
    {.name = "max_bodies",
     .type = BB_INT,
     .min = 1048576,
     .max = 1099511627776,
     .fallback = "268435456",
     .help =
         "Bytes of all bodies of 64 KiB and more in memory at a time, with 1 MiB of each upload; "
         "more are answered 503."},
    {.name = "max_answers",
     .type = BB_INT,
     .min = 1048576,
     .max = 1099511627776,
     .fallback = "268435456",
     .help = "Bytes of all answers of 64 KiB and more in memory at a time, until they are read; "
             "further GETs for such are answered 503."},
    {.name = "max_uploads",
     .type = BB_INT,
     .min = 1048576,
     .max = 1099511627776,
     .fallback = "4294967296",
     .help = "Bytes on the disk of all uploads that have not ended; more are answered 503."},
    {.name = "client_percent",
     .type = BB_INT,
     .min = 1,
     .max = 100,
     .fallback = "25",
     .help = "Percent of what all share that one account, or without a token one address (of IPv6: "
             "one network of 64 bits), may have at a time; more is answered 429."},
    {.name = "bodies_per_account",
     .type = BB_INT,
     .max = 100,
     .fallback = "0",
     .help = "The same percentage for max_bodies and max_answers alone; 0: client_percent."},
    {.name = "max_connections",
     .type = BB_INT,
     .flags = BB_RESTART,
     .min = 16,
     .max = 1000000,
     .fallback = "8192",
     .help = "Connections open at a time. When all are taken, the oldest idle one of the address "
             "that has most is closed for the next."},
    {.name = "max_requests",
     .type = BB_INT,
     .min = 16,
     .max = 1000000,
     .fallback = "2048",
     .help = "Requests in progress at a time, except public reads and open streams; more are "
             "answered 503. Requests without a token have half of them."},
    {.name = "max_streams",
     .type = BB_INT,
     .max = 1000000,
     .fallback = "4096",
     .help = "Streams open at a time, of max_connections; more are answered 503."},
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
     .help = "Seconds for a client to take an answer."},
    {.name = "trusted_proxies",
     .type = BB_LIST,
     .max = 256,
     .fields = BB_TABLE(text_item),
     .fallback = "[]",
     .help = "Networks whose X-Forwarded-For is believed.",
     .example = "[127.0.0.1, 10.0.0.0/8]"},
    {.name = "metrics_networks",
     .type = BB_LIST,
     .max = 256,
     .fields = BB_TABLE(text_item),
     .fallback = "[]",
     .help = "Networks whose clients need no token for /metrics. Not a proxy's that the world "
             "comes through, unless it is trusted.",
     .example = "[127.0.0.1, 10.1.0.0/16]"},
    {.name = "slow_request",
     .type = BB_INT,
     .flags = BB_MILLISECONDS,
     .max = 600000,
     .fallback = "1000",
     .help = "Milliseconds of work after which a request gets a line in the log that says where "
             "they went; 0: never."},
    {.name = "cors_origins",
     .type = BB_LIST,
     .max = 256,
     .fields = BB_TABLE(text_item),
     .fallback = "[]",
     .help = "Origins that browsers may call from, exactly as they name themselves.",
     .example = "[https://platform.example.org]"},
};

static const struct bb_field database_fields[] = {
    {.name = "url",
     .type = BB_TEXT,
     .flags = BB_SECRET | BB_RESTART,
     .max = 4096,
     .fallback = "dbname=busbar",
     .help = "How to reach PostgreSQL, as libpq takes it: pairs or a postgresql:// address; "
             "empty: none, for modules that need none.",
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
     .help = "Connections of each loop for transactions of their own, at most."},
    {.name = "queue",
     .type = BB_INT,
     .min = 16,
     .max = 1000000,
     .fallback = "1024",
     .help = "Statements waiting for each kind of connection of a loop; more are answered 503."},
    {.name = "gather",
     .type = BB_INT,
     .min = 1,
     .max = 64,
     .fallback = "64",
     .help =
         "Requests that may share one execution of a statement that they ask with different keys; "
         "1: each has its own."},
    {.name = "statement_timeout",
     .type = BB_INT,
     .flags = BB_RESTART | BB_MILLISECONDS,
     .min = 50,
     .max = 600000,
     .fallback = "5000",
     .help = "Milliseconds after which PostgreSQL gives up a statement."},
    {.name = "connect_timeout",
     .type = BB_INT,
     .flags = BB_RESTART | BB_MILLISECONDS,
     .min = 100,
     .max = 60000,
     .fallback = "3000",
     .help = "Milliseconds for a connection to come about."},
    {.name = "migrate",
     .type = BB_BOOL,
     .fallback = "true",
     .help = "Whether `serve` applies missing migrations; if not, `busbar migrate` must."},
};

static const struct bb_field redis_fields[] = {
    {.name = "url",
     .type = BB_TEXT,
     .flags = BB_SECRET | BB_RESTART,
     .max = 4096,
     .fallback = "",
     .help = "host:port or unix:/path; empty: no Redis, hosts then throttle logins each alone.",
     .example = "unix:/run/redis/redis.sock"},
    {.name = "timeout",
     .type = BB_INT,
     .flags = BB_RESTART | BB_MILLISECONDS,
     .min = 10,
     .max = 10000,
     .fallback = "200",
     .help = "Milliseconds after which Redis is done without."},
};

static const struct bb_field secrets_fields[] = {
    {.name = "keys",
     .type = BB_LIST,
     .flags = BB_SECRET,
     .max = 16,
     .fields = BB_TABLE(key_item),
     .fallback = "[]",
     .help = "Keys that encrypt secrets in the database, 64 hexadecimal digits each. The first one "
             "encrypts, all decrypt: put a new one in front, and drop the old one later.",
     .example = "[\"${BUSBAR_SECRET_KEY}\"]"},
};

static const struct bb_field log_fields[] = {
    {.name = "level",
     .type = BB_CHOICE,
     .choices = levels,
     .fallback = "info",
     .help = "The lowest level that is written."},
    {.name = "format",
     .type = BB_CHOICE,
     .choices = formats,
     .fallback = "logfmt",
     .help = "How lines look."},
    {.name = "file",
     .type = BB_TEXT,
     .flags = BB_RESTART,
     .max = 4096,
     .fallback = "",
     .help = "File that the log is appended to, from the settings file's directory if relative; "
             "SIGUSR1 has the host open it again. Empty: standard error.",
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
     .help = "Where `busbar reload` and `busbar status` meet the host: a unix socket, from the "
             "settings file's directory if relative; empty: none. $BUSBAR_CONTROL goes before it."},
};

static const struct bb_field reload_fields[] = {
    {.name = "drain",
     .type = BB_INT,
     .flags = BB_SECONDS,
     .min = 1,
     .max = 3600,
     .fallback = "30",
     .help = "Seconds after a reload in which requests of the configuration before it may end."},
};

static const struct bb_field idempotency_fields[] = {
    {.name = "hours",
     .type = BB_INT,
     .flags = BB_HOURS,
     .min = 1,
     .max = 720,
     .fallback = "24",
     .help = "Hours for which the answer to an Idempotency-Key is kept."},
};

static const struct bb_field host_fields[] = {
    {.name = "state",
     .type = BB_TEXT,
     .max = 200,
     .fallback = "",
     .help = "Directory of crash reports, from the settings file's directory if relative; empty: "
             "$STATE_DIRECTORY (systemd's), and without that reports are in the log alone.",
     .example = "/var/lib/busbar"},
    {.name = "stall_timeout",
     .type = BB_INT,
     .flags = BB_SECONDS,
     .max = 3600,
     .fallback = "30",
     .help = "Seconds after which an event loop that stands, or a start that does not come to an "
             "end, ends the worker, with a crash report; 0: never."},
    {.name = "quarantine",
     .type = BB_BOOL,
     .fallback = "true",
     .help = "Whether a module that crashed three times within a minute is left out when the "
             "worker is started again, with those that need it, until a reload."},
};

const struct host_section host_sections[] = {
    {SETTINGS_ROOT, "At the top of the file.", BB_TABLE(root_fields)},
    {"http", "The listener and its limits.", BB_TABLE(http_fields)},
    {"database", "PostgreSQL.", BB_TABLE(database_fields)},
    {"redis", "Redis holds what is shared, small and may be lost.", BB_TABLE(redis_fields)},
    {"secrets", "Secrets at rest.", BB_TABLE(secrets_fields)},
    {"log", "The log, on standard error or in a file.", BB_TABLE(log_fields)},
    {"idempotency", "Requests that carry an Idempotency-Key.", BB_TABLE(idempotency_fields)},
    {"control", "Reloading and watching a running host.", BB_TABLE(control_fields)},
    {"host", "What the host does when a module fails: operating.md.", BB_TABLE(host_fields)},
    {"reload", "Exchanging the configuration while serving.", BB_TABLE(reload_fields)},
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
