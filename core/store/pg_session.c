/*
 * The settings of a session. A function called by a statement may change settings without the host
 * noticing, which affects later users of the connection. PostgreSQL reports changes of some
 * settings before the end of the transaction, so the host compares these. Other changes go
 * unnoticed.
 */
#include "core/module/module_error.h"
#include "core/store/pg_pool.h"

/*
 * Without in_hot_standby, which is a state of the server. PostgreSQL 18 and later report
 * search_path.
 */
static const char *const names[PG_REPORTED] = {"TimeZone",
                                               "DateStyle",
                                               "IntervalStyle",
                                               "client_encoding",
                                               "standard_conforming_strings",
                                               "default_transaction_read_only",
                                               "session_authorization",
                                               "is_superuser",
                                               "application_name",
                                               "search_path"};

static uint64_t hash_of(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325U;

    while (text && *text)
        hash = (hash ^ (unsigned char)*text++) * 0x100000001b3U;
    return hash;
}

void pg_session_keep(struct pg_conn *conn)
{
    for (int i = 0; i < PG_REPORTED; i++)
        conn->reported[i] = hash_of(PQparameterStatus(conn->pg, names[i]));
}

static const char *changed(const struct pg_conn *conn)
{
    for (int i = 0; i < PG_REPORTED; i++) {
        if (hash_of(PQparameterStatus(conn->pg, names[i])) != conn->reported[i])
            return names[i];
    }
    return NULL;
}

bool pg_session_is_spoilt(const struct pg_conn *conn, const struct core_request *rq)
{
    static const char what[] = "a setting of a shared connection has changed";
    const char *name = changed(conn);

    if (name && rq)
        module_error_warn(rq, what, name);
    else if (name)
        log_line(BB_WARN, what, "detail", name, NULL);
    return name;
}
