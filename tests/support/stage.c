#include "stage.h"

struct host *host;
struct person *admin;
struct person *m; /* declared in the headers of the suites that use it */
PGconn *db;

void stage_open(const struct host_spec *spec)
{
    struct host_spec on = *spec;

    on.database = database_make(the_postgres, spec->name);
    host = host_start(&on);
    admin = admin_of(host);
}

static void close_host(void)
{
    host_stop(host);
}

static void connect_db(void)
{
    db = database_connect(the_postgres, host->name);
}

static void disconnect_db(void)
{
    PQfinish(db);
}

Suite *stage_suite(const char *name, void (*set_up)(void), int seconds_each,
                   const TTest *const *tests, size_t count)
{
    TCase *cases;
    Suite *suite = suite_of(name, tests, count, &cases);

    tcase_add_unchecked_fixture(cases, set_up, close_host);
    tcase_add_checked_fixture(cases, connect_db, disconnect_db);
    tcase_set_timeout(cases, seconds_each);
    return suite;
}
