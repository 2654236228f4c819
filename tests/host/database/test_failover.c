/* Several servers in database.url: servers that refuse, that are standbys and that do not respond,
 * with every pair of them before the server that works. The unit test postgres has single ones. */
#include <netinet/in.h>
#include <sys/socket.h>

#include "fault/proxy.h"
#include "poke.h"

enum { LONG_MS = 60000, SKIP_MS = 5000, SHORT_MS = 1500 }; /* LONG_MS > SKIP_MS * PATIENCE */

static struct postgres *standby;
static struct proxy *standby_proxy, *open_proxy, *silent_proxy;
static int closed_port; /* bound, but refuses connections */

#define DATABASE "failover"

/* Makes a server that is read-only like a standby, and the database with its tables. */
static void set_up(void)
{
    standby = postgres_make("pg-standby", false);
    (void)port_bind(&closed_port); /* the socket stays open */
    postgres_run(standby, "CREATE DATABASE " DATABASE);
    postgres_run(standby, "ALTER SYSTEM SET default_transaction_read_only = on");
    postgres_run(standby, "SELECT pg_reload_conf()");
    host_stop(poke_start(&(struct host_spec){.name = DATABASE}));
}

static void end_standby(void)
{
    postgres_stop(standby, SIGINT);
}

/* r: refuses, s: standby, q: does not respond, o: works */
static const char *const orders[] = {"rso", "sro", "rro", "sso", "rqo", "qro", "sqo", "qso"};

static int port_of(char kind)
{
    switch (kind) {
    case 'r':
        return closed_port;
    case 's':
        return proxy_port(standby_proxy);
    case 'q':
        return proxy_port(silent_proxy);
    default:
        return proxy_port(open_proxy);
    }
}

static const char *place(const char *order)
{
    const char *hosts = "", *ports = "";

    for (const char *at = order; *at; at++) {
        hosts = text("%s%s127.0.0.1", hosts, *hosts ? "," : "");
        ports = text("%s%s%d", ports, *ports ? "," : "", port_of(*at));
    }
    return text("%s port=%s target_session_attrs=read-write", hosts, ports);
}

/* Returns whether all of the host's connections work, in each pool. */
static bool serves(const struct host *host)
{
    static const char *const ways[][2] = {{"GET", "query/one"},
                                          {"POST", "write/one"},
                                          {"POST", "unit/one"},
                                          {"POST", "transaction/one"}};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (http(host, ways[i][0], text("/api/poke/%s", ways[i][1]), NULL, NULL)->status >= 300)
            return false;
    return strstr(http(host, "GET", "/api/health/status", NULL, NULL)->body,
                  "\"database\":{\"status\":\"up\"") != NULL;
}

/* Servers that refuse or are standbys are skipped at once, long before connect_timeout. A silent
 * one costs one connect_timeout, at any position. */
TEST_EACH(servers_that_refuse_hang_or_are_standbys_are_skipped, sizeof orders / sizeof orders[0])
{
    const char *order = orders[_i], *name = text("failover_%s", order);
    bool silent = strchr(order, 'q') != NULL;

    standby_proxy = proxy_start(NULL, postgres_socket(standby));
    open_proxy = proxy_start(NULL, postgres_socket(the_postgres));
    silent_proxy = proxy_start(NULL, postgres_socket(the_postgres));
    proxy_set(silent_proxy, PROXY_FREEZE, 0);
    struct host *host = host_start(&(struct host_spec){
        .name = name,
        .pg = postgres_at(the_postgres, place(order)),
        .database = DATABASE,
        .modules = text("[auth, health, \"%s\"]", harness_test_module("module_poke")),
        .redis = "",
        .db = text("  migrate: false\n  connect_timeout: %d\n", silent ? SHORT_MS : LONG_MS)});

    WAIT_UNTIL_MSG(serves(host), silent ? 2 * SHORT_MS : SKIP_MS, "%s\n%s", order,
                   file_text(host->log));
}

SUITE(failover, .before_all = set_up, .after_all = end_standby, .timeout_s = 120)
