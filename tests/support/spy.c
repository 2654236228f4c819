#include "spy.h"

#include <check.h>

#include "harness.h"
#include "process.h"

bool spy_is_there(void *db)
{
    return sql_text(db, "SELECT to_regclass('spy_late')::text", 0, NULL) != NULL;
}

void spy_await(const char *database)
{
    PGconn *db = database_connect(the_postgres, database);

    ck_assert(wait_until(spy_is_there, db, 10000));
    PQfinish(db);
}
