#include "spy.h"

#include "harness.h"

void spy_await(const char *database)
{
    database_soon(the_postgres, database, "SELECT count(to_regclass('spy_late'))");
}
