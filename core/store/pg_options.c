/* Connection parameters of the loops, the listener, the commands and the migration. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/store/pg.h"

/*
 * Options before the url's, which may override them. With these keepalives the server ends the
 * sessions of a dead machine, and releases their locks, within about 15 seconds instead of two
 * hours.
 */
#define PINNED_FIRST                                                                               \
    "-c search_path=\"$user\",public -c tcp_keepalives_idle=5 -c tcp_keepalives_interval=2 "       \
    "-c tcp_keepalives_count=3 -c tcp_user_timeout=8000"

/* Options after the url's: the host and the modules read and write these formats. */
#define PINNED_LAST                                                                                \
    "-c datestyle=ISO,MDY -c intervalstyle=iso_8601 -c timezone=UTC -c bytea_output=hex "          \
    "-c standard_conforming_strings=on -c extra_float_digits=1"

void pg_clean_environment(void)
{
    unsetenv("PGTZ");
    unsetenv("PGDATESTYLE");
}

static const char *given(const PQconninfoOption *options)
{
    const char *variable = getenv("PGOPTIONS");

    for (; options && options->keyword; options++) {
        if (!strcmp(options->keyword, "options") && options->val)
            return options->val;
    }
    return variable ? variable : "";
}

char *pg_options(const char *url, const char *more)
{
    PQconninfoOption *parsed = PQconninfoParse(url, NULL);
    char *options;

    if (asprintf(&options, PINNED_FIRST " %s " PINNED_LAST " %s", given(parsed), more) < 0)
        options = NULL;
    PQconninfoFree(parsed);
    return options;
}

static void place_add(struct pg_target *place, size_t *count, const char *key, const char *value)
{
    place->keys[*count] = key;
    place->values[(*count)++] = value;
}

enum resolver_state pg_target(const struct pg_settings *settings, struct pg_target *place)
{
    static const char *const fixed[][2] = {
        {"application_name", "busbar"}, {"client_encoding", "UTF8"}, {"keepalives_idle", "5"},
        {"keepalives_interval", "2"},   {"keepalives_count", "3"},   {"tcp_user_timeout", "8000"},
        {"connect_timeout", "3"}};
    enum resolver_state found = resolver_look_up(settings->resolver, &place->found);
    size_t count = 0;

    place->settings = settings;
    /* first, expanded: later parameters override the setting */
    place_add(place, &count, "dbname", settings->url);
    if (found == RESOLVER_FOUND) {
        place_add(place, &count, "host", place->found.host);
        place_add(place, &count, "hostaddr", place->found.hostaddr);
        place_add(place, &count, "port", place->found.port);
    }
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        place_add(place, &count, fixed[i][0], fixed[i][1]);
    place_add(place, &count, "options", NULL);
    place_add(place, &count, NULL, NULL);
    place->options = &place->values[count - 2];
    return found;
}

PGconn *pg_target_connect(struct pg_target *place)
{
    unsigned ms = place->settings->statement_ms;
    char more[128];

    snprintf(more, sizeof more,
             "-c statement_timeout=%u -c idle_in_transaction_session_timeout=%u -c jit=off", ms,
             ms * 2);
    char *options = pg_options(place->settings->url, more);
    PGconn *conn = NULL;

    *place->options = options;
    if (options)
        conn = PQconnectStartParams(place->keys, place->values, 1);
    free(options);
    return conn;
}

void pg_rotate(struct resolver *resolver, unsigned turn, const PGconn *conn)
{
    const char *host = PQhost(conn), *address = PQhostaddr(conn), *port = PQport(conn);

    resolver_rotate(resolver, turn, host ? host : "", address ? address : "", port ? port : "");
}
