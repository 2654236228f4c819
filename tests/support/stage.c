#include "stage.h"

struct host *host;
struct person *admin;
struct person *m; /* declared in the headers of the suites that use it */
PGconn *db;

void stage_open(const struct host_spec *spec)
{
    host = host_start(spec);
    admin = admin_of(host);
}

void stage_connect(void)
{
    db = database_connect(the_postgres, host->name);
}

void stage_disconnect(void)
{
    PQfinish(db);
}

void spy_await(const char *database)
{
    database_soon(the_postgres, database, "SELECT count(to_regclass('spy_late'))");
}
