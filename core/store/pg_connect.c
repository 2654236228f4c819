#include "core/store/pg_connect.h"

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/store/pg.h"

/*
 * Options that the url may override. With these keepalives the server ends the sessions of a dead
 * machine, and releases their locks, within about 15 seconds instead of two hours. Idle sessions
 * have no time limit.
 */
#define PINNED_FIRST                                                                               \
    "-c search_path=\"$user\",public -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 "       \
    "-c tcp_keepalives_count=3 -c tcp_user_timeout=8000 -c idle_session_timeout=0"

/* Options that the url cannot override, because the host and the modules need these formats. */
#define PINNED_LAST                                                                                \
    "-c datestyle=ISO,MDY -c intervalstyle=iso_8601 -c timezone=UTC -c bytea_output=hex "          \
    "-c standard_conforming_strings=on -c extra_float_digits=1 "                                   \
    "-c default_transaction_isolation=read\\ committed"

/* The setting with the session's mark. A pooler in session mode resets it between clients. */
#define MARK "busbar.session"

enum { SECOND_MS = 1000 };

void pg_clean_environment(void)
{
    unsetenv("PGTZ");
    unsetenv("PGDATESTYLE");
}

/*
 * If the backend is canceled or terminated while it waits for the standby, PostgreSQL sends a
 * warning and reports the commit as a success. The warning has no specific SQLSTATE and its text is
 * translated, so this function recognizes it by the PostgreSQL function that raised it.
 */
bool pg_notice_is_unreplicated(const PGresult *notice)
{
    const char *function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);

    return function && !strcmp(function, "SyncRepWaitForLSN");
}

void pg_one_line(char *text)
{
    size_t length = strlen(text);

    while (length && (unsigned char)text[length - 1] <= ' ')
        text[--length] = '\0';
    for (; *text; text++)
        if ((unsigned char)*text < ' ')
            *text = ' ';
}

/* Discards notices, which libpq would write to stderr, between the lines of the log. */
static void pg_drop_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/* ---- the check of a session ------------------------------------------------------------------ */

/*
 * SQL that returns the names of the settings that differ from the requested ones (a timeout of 0 is
 * not checked), and MARK if the session already has a mark. It also sets the mark, and turns
 * synchronous_commit on if a role or database has turned it off, so that commits are durable.
 */
#define CHECK                                                                                      \
    "SELECT concat_ws(', ', (SELECT string_agg(name, ', ') FROM (VALUES"                           \
    " ('DateStyle', 'ISO, MDY'), ('IntervalStyle', 'iso_8601'), ('TimeZone', 'UTC'),"              \
    " ('bytea_output', 'hex'), ('client_encoding', 'UTF8'), ('extra_float_digits', '1'),"          \
    " ('standard_conforming_strings', 'on'), ('statement_timeout', '%ums'),"                       \
    " ('idle_in_transaction_session_timeout', '%ums')) AS requested (name, value)"                 \
    " WHERE CASE right(value, 2) WHEN 'ms' THEN"                                                   \
    " value <> '0ms' AND current_setting(name)::interval <> value::interval"                       \
    " ELSE current_setting(name) <> value END),"                                                   \
    " CASE WHEN current_setting('" MARK "', true) <> '' THEN '" MARK "' END)"                      \
    " || left(set_config('" MARK "', '%s', false), 0)"                                             \
    " || CASE current_setting('synchronous_commit') WHEN 'off'"                                    \
    " THEN left(set_config('synchronous_commit', 'on', false), 0) ELSE '' END"

/* Runs a statement and returns its last result; NULL on failure, or if until_ms passes before. */
static PGresult *pg_run_until(PGconn *conn, const char *text, int64_t until_ms)
{
    if (!PQsendQuery(conn, text))
        return NULL;
    for (PGresult *last = NULL, *result;; last = result) {
        while (PQisBusy(conn)) {
            int64_t left = until_ms - clock_mono_ms();

            if (left <= 0 || poll(&(struct pollfd){PQsocket(conn), POLLIN, 0}, 1, (int)left) < 0 ||
                !PQconsumeInput(conn)) {
                PQclear(last);
                return NULL;
            }
        }
        result = PQgetResult(conn);
        if (!result)
            return last;
        PQclear(last);
    }
}

/* ---- connecting ------------------------------------------------------------------------------ */

/* The server of the most recent connection that needed a lookup of the host name. */
struct pg_server {
    char url[1024], host[256], address[64], port[16];
};

static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pg_server last_server; /* `url` is "" if there was none yet */

static void pg_remember_server(const char *url, const PGconn *conn)
{
    const char *host = PQhost(conn), *address = PQhostaddr(conn), *port = PQport(conn);

    if (!host || !address || !port || !*address || !strcmp(host, address))
        return;
    BB_LOCKED(&last_lock);
    snprintf(last_server.url, sizeof last_server.url, "%s", url);
    snprintf(last_server.host, sizeof last_server.host, "%s", host);
    snprintf(last_server.address, sizeof last_server.address, "%s", address);
    snprintf(last_server.port, sizeof last_server.port, "%s", port);
}

/* Returns the text of libpq's parameter `options`, which the caller frees. NULL: out of memory.
 * PgBouncer 1.20 and later refuse a blank at the end. */
static char *pg_all_options(const struct pg_login *login)
{
    PQconninfoOption *parsed = PQconninfoParse(login->url, NULL);
    const char *given = getenv("PGOPTIONS");
    char *options;

    for (const PQconninfoOption *at = parsed; at && at->keyword; at++)
        if (!strcmp(at->keyword, "options") && at->val)
            given = at->val;
    if (asprintf(&options, PINNED_FIRST " %s %s " PINNED_LAST, given ? given : "", login->options) <
        0)
        options = NULL;
    PQconninfoFree(parsed);
    return options;
}

PGconn *pg_connect(const struct pg_login *login, bool known, char problem[DIAL_PROBLEM])
{
    pthread_mutex_lock(&last_lock);
    struct pg_server server = last_server;
    pthread_mutex_unlock(&last_lock);
    char seconds[16], *options;
    PGconn *conn = NULL;

    snprintf(problem, DIAL_PROBLEM, "out of memory");
    if (known && strcmp(server.url, login->url) != 0) {
        snprintf(problem, DIAL_PROBLEM, "no address is known from an earlier connection");
        return NULL;
    }
    snprintf(seconds, sizeof seconds, "%u", (login->connect_ms + SECOND_MS - 1) / SECOND_MS);
    options = pg_all_options(login);
    /* the url (dbname) is first, because later parameters override the parameters of the url */
    const char *const keys[] = {"dbname",
                                "application_name",
                                "client_encoding",
                                "keepalives_idle",
                                "keepalives_interval",
                                "keepalives_count",
                                "tcp_user_timeout",
                                "connect_timeout",
                                "options",
                                known ? "host" : NULL,
                                "hostaddr",
                                "port",
                                NULL};
    const char *const values[] = {
        login->url, login->name, "UTF8",         "5",         "2", "3", "8000", seconds,
        options,    server.host, server.address, server.port, NULL};

    if (options)
        conn = PQconnectdbParams(keys, values, 1);
    free(options);
    if (conn && PQstatus(conn) != CONNECTION_OK) {
        snprintf(problem, DIAL_PROBLEM, "%s", PQerrorMessage(conn));
    } else if (conn) {
        PQsetNoticeReceiver(conn, pg_drop_notice, NULL);
        char text[1280];

        snprintf(text, sizeof text, CHECK, login->statement_ms, login->statement_ms * 2,
                 login->mark);
        PGresult *result = pg_run_until(conn, text, clock_mono_ms() + login->connect_ms);
        const char *found = PQntuples(result) == 1 ? PQgetvalue(result, 0, 0) : NULL;
        bool passed = found && !*found;

        if (!found)
            snprintf(problem, DIAL_PROBLEM, "the session cannot be checked: %s",
                     result ? PQresultErrorMessage(result) : "no response");
        else if (strstr(found, MARK))
            snprintf(problem, DIAL_PROBLEM, "%s", PG_SHARED);
        else if (!passed)
            snprintf(
                problem, DIAL_PROBLEM,
                "the session does not have the settings that busbar requires (%s): a connection "
                "pooler drops them; connect directly to PostgreSQL",
                found);
        PQclear(result);
        if (passed) {
            if (!login->replica)
                pg_remember_server(login->url, conn);
            return conn;
        }
    }
    PQfinish(conn);
    return NULL;
}

/* The argument of pg_dial_connect(): a login, and the memory of its texts. */
struct pg_dialled {
    struct pg_login login;
    char mark[40], options[128], url[];
};

static void *pg_dial_connect(const void *to, bool again, char problem[DIAL_PROBLEM])
{
    return pg_connect(&((const struct pg_dialled *)to)->login, again, problem);
}

static void pg_dial_close(void *conn)
{
    PQfinish(conn);
}

struct dial *pg_dial(struct loop *loop, const struct host_settings *host, const char *replica,
                     const char *mark, dial_done *done, void *owner)
{
    static const struct dial_kind kinds[] = {{pg_dial_connect, pg_dial_close, SECOND_MS, false},
                                             {pg_dial_connect, pg_dial_close, 0, true}};
    const char *url = replica ? replica : host->database.url;
    size_t size = strlen(url) + 1;
    struct pg_dialled *to = malloc(sizeof *to + size);
    unsigned ms = (unsigned)host->database.statement_timeout;

    if (!to)
        return NULL;
    to->login = (struct pg_login){.url = to->url,
                                  .name = "busbar",
                                  .options = to->options,
                                  .mark = to->mark,
                                  .connect_ms = (unsigned)host->database.connect_timeout,
                                  .statement_ms = ms,
                                  .replica = replica != NULL};
    memcpy(to->url, url, size);
    snprintf(to->mark, sizeof to->mark, "%s", mark);
    snprintf(to->options, sizeof to->options,
             "-c statement_timeout=%u -c idle_in_transaction_session_timeout=%u -c jit=off", ms,
             ms * 2);
    return dial_new(loop, &kinds[replica != NULL], to, done, owner);
}
