/* Handles notices of PostgreSQL. */
#include <string.h>

#include "core/store/pg.h"

void pg_drop_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/*
 * The wait ends early when the backend is canceled or terminated. PostgreSQL then reports a warning
 * and the commit as a success. The warning has no specific SQLSTATE and its text is translated,
 * so it is recognized by the function that raises it.
 */
bool pg_notice_is_unreplicated(const PGresult *notice)
{
    const char *function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);

    return function && !strcmp(function, "SyncRepWaitForLSN");
}
