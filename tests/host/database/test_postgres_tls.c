/* TLS between the host and PostgreSQL: the certificate and its name are verified. */
#include <stdlib.h>

#include "people.h"
#include "tls.h"

static struct postgres *pg;
static struct tls_pair own;
static int port;

/* Restarts PostgreSQL with TLS on a port of the loopback. libpq finds its socket by PGPORT. */
static void set_up(void)
{
    pg = postgres_make("pg-tls", false);
    own = tls_make("pg-tls", "IP:127.0.0.1", NULL);
    port = free_port();
    postgres_stop(pg, SIGINT);
    ck_assert_int_eq(system(text("install -m 600 -o $(stat -c %%u %s) %s %s/server.key && install"
                                 " -m 644 %s %s/server.crt && echo 'hostssl all all 127.0.0.1/32"
                                 " trust' >>%s/pg_hba.conf",
                                 pg->data, own.key, pg->data, own.certificate, pg->data, pg->data)),
                     0);
    pg->more = text("-c listen_addresses=127.0.0.1 -c port=%d -c ssl=on", port);
    setenv("PGPORT", text("%d", port), 1);
    postgres_start(pg);
}

static void tear_down(void)
{
    postgres_stop(pg, SIGINT);
    unsetenv("PGPORT");
}

static struct host_spec spec_of(const char *name, const char *address,
                                const struct tls_pair *trusted)
{
    return (struct host_spec){
        .name = name,
        .database = "tls",
        .pg = postgres_at(pg, text("%s port=%d sslmode=verify-full sslrootcert=%s", address, port,
                                   trusted->certificate))};
}

TEST(all_connections_to_postgresql_use_tls)
{
    database_make(pg, "tls");
    struct host_spec spec = spec_of("tls", "127.0.0.1", &own);
    struct host *host = host_start(&spec);
    PGconn *db = database_connect(pg, "tls");

    status_soon(host, "/api/health/ready", NULL, 200);
    admin_of(host);
    ck_assert_int_gt(sql_number(db, "SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING"
                                    " (pid) WHERE application_name LIKE 'busbar%' AND ssl"),
                     2);
    sql_is(db, 0,
           "SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)"
           " WHERE application_name LIKE 'busbar%%' AND NOT ssl");
}

/* The host runs without its database, and says why. */
static void expect_refused(const struct host_spec *spec, const char *reason)
{
    struct host *host = host_start(spec);

    host_logs(host, 0, reason);
    ck_status(http(host, "GET", "/api/health/ready", NULL, NULL), 503);
    host_stop(host);
}

TEST(a_server_with_a_certificate_of_another_authority_is_refused)
{
    struct tls_pair other = tls_make("pg-other", "IP:127.0.0.1", NULL);
    struct host_spec spec = spec_of("tls-other", "127.0.0.1", &other);

    expect_refused(&spec, "certificate verify failed");
}

TEST(a_server_whose_certificate_has_another_name_is_refused)
{
    struct host_spec spec = spec_of("tls-name", "localhost", &own);

    expect_refused(&spec, "does not match host name");
}

SUITE(postgres_tls, .timeout_s = 120, .before_all = set_up, .after_all = tear_down)
