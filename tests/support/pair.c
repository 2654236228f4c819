#include "pair.h"

struct host *one, *two;
PGconn *pair_db;
static const char *database;

void pair_open(const char *name)
{
    database = database_make(the_postgres, name);
    one = host_start(&(struct host_spec){.name = text("%s-1", name), .database = database});
    two = host_start(&(struct host_spec){.name = text("%s-2", name), .database = database});
}

void pair_connect(void)
{
    pair_db = database_connect(the_postgres, database);
}

void pair_disconnect(void)
{
    PQfinish(pair_db);
}
