#include "fault/crashes.h"

char *crash_module(void)
{
    return text("%s/../tests/modules/module_crash.so", getenv("BUSBAR_PLAIN"));
}

const char *const *crash_environment(const char *order)
{
    return word_list(text("CRASH_ORDER=%s", order));
}

struct crash_bench crash_bench(const char *name, const char *lines, const char *settings)
{
    struct crash_bench bench = {.order = harness_path(text("%s.order", name)),
                                .state = harness_path(text("%s.state", name))};

    bench.host = host_prepare(&(struct host_spec){
        .name = name,
        .modules = text("[auth, chat, health, metrics, \"%s\"]", crash_module()),
        .http = lines,
        .more = text("host:\n  state: \"%s\"\n%s", bench.state, settings),
        .environment = crash_environment(bench.order),
        .plain = true});
    bench.db = database_connect(the_postgres, name);
    return bench;
}

struct host *crash_run(const struct crash_bench *bench, const char *order)
{
    if (order)
        file_write(bench->order, order);
    bench->host->supervised = true;
    ck_assert(host_run(bench->host));
    status_soon(bench->host, "/api/health", NULL, 200);
    return bench->host;
}

void crash_go(const struct crash_bench *bench, const char *place)
{
    struct host *host = bench->host;

    if (!strcmp(place, "close"))
        kill(host->pid, SIGTERM);
    else
        http(host, "POST", "/crash", NULL, NULL);
}

bool crash_ended(struct host *host)
{
    bool ended = !host->pid;

    WAIT_FOR(ended = ended || process_wait(host->pid, 0, &host->status), ENDED_MS);
    if (ended)
        host->pid = 0;
    return ended;
}

const char *crash_line(const struct host *host, size_t from)
{
    return host_logs(host, from, "msg=\"crashed\"");
}

const char *crash_report(const char *line)
{
    const char *at = strstr(line, " report=");

    ck_assert_msg(at != NULL, "no report: %.300s", line);
    return file_text(text("%.*s", (int)strcspn(at + 8, " \n"), at + 8));
}
