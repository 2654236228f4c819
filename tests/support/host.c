/* Real hosts, each with its own configuration file, log and port. */
#include <sys/stat.h>
#include <sys/wait.h>

#include "harness.h"

enum { SOON_MS = 30000 };

/* Any 64 hexadecimal digits work. */
#define SEALING_KEY "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"

/* By default, password hashes are cheap. */
#define AUTH_DEFAULTS "  argon2_memory: 64\n  argon2_rounds: 1\n"

static char *section(const char *name, const char *lines)
{
    return lines && *lines ? text("%s:\n%s", name, lines) : text("%s", "");
}

/*
 * Limits that a suite does not name are high: all suites of a worker have one address and one
 * Redis, and attempts of earlier suites still count there.
 */
static char *auth_section(const char *lines)
{
    char *all = text("auth:\n%s", lines ? lines : AUTH_DEFAULTS);

    EACH_TEXT (limit, "login_failures_per_account", "login_failures_per_address",
               "links_per_address", "registrations_per_address")
        if (!strstr(all, limit))
            all = text("%s  %s: 100000\n", all, limit);
    return all;
}

static char *redis_url(const char *redis)
{
    if (!redis)
        redis = the_redis;
    return *redis == '/' ? text("unix:%s", redis) : text("%s", redis);
}

/* Returns the lines, and that one unless they have this setting: time limits of the product are
 * short for a busy machine. */
static char *with_limit(const char *lines, const char *setting)
{
    return text("%s%s", lines ? lines : "",
                lines && strstr(lines, setting) ? "" : text("  %s: 20000\n", setting));
}

char *host_configuration(const struct host_spec *spec)
{
    const struct postgres *pg = spec->pg ? spec->pg : the_postgres;

    return text("http:\n  listen: \"127.0.0.1:%d\"\n%s"
                "database:\n  url: \"host=%s dbname=%s user=busbar\"\n%s"
                "redis:\n  url: \"%s\"\n  authorities: \"%s\"\n  timeout: %d\n"
                "secrets:\n  keys: [\"" SEALING_KEY "\"]\n"
                "control:\n  socket: \"%s\"\n"
                "module_path: \"%s\"\nmodules: %s\n"
                "%s%s%s%s",
                spec->port, with_limit(spec->http, "deadline"), pg->sockets, spec->database,
                with_limit(spec->db, "statement_timeout"), redis_url(spec->redis),
                spec->redis_authorities ? spec->redis_authorities : "",
                spec->redis_ms ? spec->redis_ms : 200, harness_path(text("%s.control", spec->name)),
                spec->module_path ? spec->module_path : harness_modules(spec->plain),
                spec->modules ? spec->modules : "[auth, chat, health]", section("log", spec->log),
                auth_section(spec->auth), section("chat", spec->chat),
                spec->more ? spec->more : "");
}

struct host *host_prepare(const struct host_spec *spec)
{
    struct host *host = kept(calloc(1, sizeof *host));
    struct host_spec own = *spec;

    if (!own.database)
        own.database = database_make(own.pg ? own.pg : the_postgres, own.name);
    host->name = text("%s", spec->name);
    host->conf = harness_path(text("%s.yaml", spec->name));
    host->log = harness_path(text("host-%s.log", spec->name));
    host->environment = spec->environment;
    host->wrapper = spec->wrapper;
    host->plain = spec->plain;
    host->supervised = spec->supervised || getenv("BUSBAR_TEST_SUPERVISED");
    host->keep_port = spec->keep_port;
    file_write(host->conf, host_configuration(&own));
    return host;
}

/* Returns the log from an offset on, up to 64 KiB; valid until the next call. */
static const char *log_from(const struct host *host, size_t from)
{
    static char part[65536];
    FILE *log = fopen(host->log, "re");
    size_t length = 0;

    if (log && !fseek(log, (long)from, SEEK_SET))
        length = fread(part, 1, sizeof part - 1, log);
    if (log)
        fclose(log);
    part[length] = '\0';
    return part;
}

size_t host_log_size(const struct host *host)
{
    struct stat about;

    return stat(host->log, &about) ? 0 : (size_t)about.st_size;
}

/* Returns the port in the first matching line after offset `from` of the log; 0: none yet. */
static int listening_port(const struct host *host, size_t from)
{
    const char *line = strstr(log_from(host, from), "listening");
    const char *end = line ? strchr(line, '\n') : NULL;
    int port = 0;

    while (end && end > line && (end[-1] < '0' || end[-1] > '9'))
        end--;
    while (end && end > line && end[-1] != ':')
        end--;
    if (end)
        port = (int)strtol(end, NULL, 10);
    return port;
}

/* Writes the host's port into its configuration. */
static void pin_port(const struct host *host)
{
    const char *conf = file_text(host->conf), *any = strstr(conf, ":0\"\n");

    if (any)
        file_write(host->conf, text("%.*s:%d%s", (int)(any - conf), conf, host->port, any + 2));
}

static struct host *newest; /* newest host that host_run() started, also before a fork */

bool host_run(struct host *host)
{
    size_t from = host_log_size(host);
    const char *argv[32];
    int count = 0;

    for (; host->wrapper && host->wrapper[count]; count++)
        argv[count] = host->wrapper[count];
    memcpy(argv + count,
           (const char *[]){harness_program(host->plain), "-c", host->conf, "serve",
                            host->supervised ? NULL : "--no-supervisor", NULL},
           6 * sizeof *argv);

    host->status = 0;
    host->pid = process_start(
        &(struct process_spec){.argv = argv, .environment = host->environment, .log = host->log});
    WAIT_UNTIL_MSG((host->port = listening_port(host, from)) ||
                       process_wait(host->pid, 0, &host->status),
                   HEALTHY_MS, "%s does not listen:\n%s", host->name, file_text(host->log));
    if (!host->port)
        host->pid = 0;
    if (host->keep_port && host->port)
        pin_port(host);
    if (host->pid && host->owner != getpid()) {
        if (!host->owner) { /* otherwise the list already has the host */
            host->older = newest;
            newest = host;
        }
        host->owner = getpid();
    }
    return host->pid != 0;
}

struct host *host_start(const struct host_spec *spec)
{
    struct host *host = host_prepare(spec);

    ck_assert_msg(host_run(host), "%s ended at once:\n%s", host->name, file_text(host->log));
    return host;
}

void hosts_stop(void)
{
    for (; newest && newest->owner == getpid(); newest = newest->older)
        host_stop(newest);
}

/*
 * Fails if PostgreSQL refused a statement of a module in modules/ as wrong: unknown functions,
 * columns, types. Nobody else may notice it in a job, which logs it and goes on.
 */
static void host_statements_right(const struct host *host, const char *log)
{
    for (const char *line = strstr(log, "level=error"); line;
         line = strstr(line + 1, "level=error")) {
        const char *module = strstr(line, " module="), *end = strchrnul(line, '\n');

        if (!module || module > end ||
            access(text(TEST_SOURCES "/../modules/%.*s/module.c", (int)strcspn(module + 8, " "),
                        module + 8),
                   F_OK))
            continue;
        EACH_TEXT (bad, "42601", "42703", "42725", "42804", "42883", "42P18") {
            const char *at = strstr(line, text(" sqlstate=%s", bad));

            ck_assert_msg(!at || at > end, "%s: a statement of a module is wrong: %.*s", host->name,
                          (int)(end - line), line);
        }
    }
}

void host_log_clean(const struct host *host)
{
    const char *log = file_text(host->log);

    EACH_TEXT (report, "AddressSanitizer", "LeakSanitizer", "ThreadSanitizer",
               ": runtime error: ") {
        const char *at = strstr(log, report);

        if (at) /* check prints no message if a suite's tear-down fails */
            fprintf(stderr, "integration: %s: a sanitizer reports in %s\n", host->name, host->log);
        ck_assert_msg(!at, "%s: a sanitizer reports in %s:\n%.3000s", host->name, host->log, at);
    }
    if (!host->other_schema)
        host_statements_right(host, log);
}

void host_stop(struct host *host)
{
    if (!host->pid)
        return;
    int status = process_stop(host->pid, SIGTERM, STOP_MS);

    host->pid = 0;
    host_log_clean(host);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                  "%s ended with wait status %d after SIGTERM, see %s", host->name, status,
                  host->log);
}

void host_kill(struct host *host)
{
    process_stop(host->pid, SIGKILL, STOP_MS);
    host->pid = 0;
    host_log_clean(host);
}

bool host_alive(struct host *host)
{
    return host->pid && kill(host->pid, 0) == 0;
}

static int run_words(const struct host *host, const char *const *environment,
                     const char *const *words, const char *log)
{
    const char *argv[32] = {harness_program(host->plain), "-c", host->conf};
    int count = 3;

    for (int i = 0; words[i]; i++) {
        ck_assert_int_lt(count, 31);
        argv[count++] = words[i];
    }
    return process_run(
        &(struct process_spec){.argv = argv, .environment = environment, .log = log});
}

int host_command(struct host *host, const char *const *environment, const char *const *words)
{
    return run_words(host, environment, words, host->log);
}

char *host_ask_words(const struct host *host, const char *const *words, int *status)
{
    const char *out = harness_path(text("%s-%s.out", host->name, words[0]));
    const char *socket = harness_path(text("%s.control", host->name));
    const char *const environment[] = {text("BUSBAR_CONTROL=%s", socket), NULL};

    unlink(out);
    *status = run_words(host, environment, words, out);
    return file_text(out);
}

char *host_ask(const struct host *host, const char *word, int *status)
{
    return host_ask_words(host, (const char *const[]){word, NULL}, status);
}

char *host_says_words(const struct host *host, int status, const char *const *words,
                      const char *file, int line)
{
    int ended;
    char *said = host_ask_words(host, words, &ended);

    ck_assert_msg(ended == status, "%s:%d: busbar %s ended with status %d: %s", file, line, *words,
                  ended, said);
    return said;
}

char *host_says_part(const struct host *host, int status, const char *part,
                     const char *const *words, const char *file, int line)
{
    char *said = host_says_words(host, status, words, file, line);

    ck_assert_msg(strstr(said, part) != NULL, "%s:%d: no \"%s\" in the output of busbar %s:\n%s",
                  file, line, part, *words, said);
    return said;
}

json_t *host_status(const struct host *host)
{
    int fd = socket_connect(harness_path(text("%s.control", host->name))), status = -1;
    FILE *in = fd < 0 ? NULL : fdopen(fd, "re");
    char *rest = kept(strdup(""));
    size_t size = 1;
    json_t *json = NULL;

    if (in && dprintf(fd, "status --json\n") > 0 && fscanf(in, "%d", &status) == 1 &&
        getdelim(&rest, &size, '\0', in) > 0)
        json = json_loads(rest, 0, NULL);
    ck_assert_msg(json && !status, "%s does not send its status: %d%s", host->name, status, rest);
    fclose(in);
    free(rest);
    return kept(json);
}

size_t host_logged(const struct host *host, const char *part)
{
    size_t count = 0;

    for (const char *at = file_text(host->log); (at = strstr(at, part)); at++)
        count++;
    return count;
}

char *host_logs(const struct host *host, size_t from, const char *part)
{
    const char *line = NULL;

    WAIT_UNTIL_MSG((line = strstr(file_text(host->log) + from, part)) && strchr(line, '\n'),
                   SOON_MS, "no \"%s\" in %s:\n%.3000s", part, host->log,
                   file_text(host->log) + from);
    return text("%.*s", (int)strcspn(line, "\n"), line);
}

static bool has_line(const char *log, const char *const *parts)
{
    for (size_t length; *log; log += length + (log[length] == '\n')) {
        const char *const *part = parts;

        length = strcspn(log, "\n");
        while (*part && memmem(log, length, *part, strlen(*part)))
            part++;
        if (!*part)
            return true;
    }
    return false;
}

void host_logs_parts(const struct host *host, size_t from, const char *const *parts)
{
    WAIT_UNTIL_MSG(has_line(file_text(host->log) + from, parts), SOON_MS,
                   "no line with \"%s\", \"%s\" … in %s:\n%.3000s", parts[0], parts[1], host->log,
                   file_text(host->log) + from);
}
