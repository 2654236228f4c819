/*
 * Checks whether a new session has the properties that busbar requested. A connection pooler
 * between busbar and PostgreSQL may drop the options of the connection, or give one session to
 * several connections in turn. Then statements run without a time limit, prepared statements and
 * locks belong to another connection, and notifications are lost.
 */
#include <stdio.h>
#include <string.h>

#include "core/store/pg.h"

/*
 * Marks the session as in use. A pooler in session mode resets it before another connection gets
 * it.
 */
#define MARK "busbar.session"

enum { DAY_MS = 86400000, HOUR_MS = 3600000, MINUTE_MS = 60000, SECOND_MS = 1000 };

/* The values set by pg_options.c. */
static const struct {
    const char *name, *value;
} pinned[] = {{"DateStyle", "ISO, MDY"},   {"IntervalStyle", "iso_8601"},
              {"TimeZone", "UTC"},         {"bytea_output", "hex"},
              {"client_encoding", "UTF8"}, {"standard_conforming_strings", "on"},
              {"extra_float_digits", "1"}};

struct query {
    char *text;
    size_t used;
};

BB_PRINTF(2, 3) static void add(struct query *query, const char *format, ...)
{
    size_t room = PG_CHECK_SIZE - query->used;
    va_list args;

    va_start(args, format);
    int length = vsnprintf(query->text + query->used, room, format, args);
    va_end(args);
    if (length > 0)
        query->used += (size_t)length < room ? (size_t)length : room - 1;
}

static void add_setting(struct query *query, const char *name, const char *value)
{
    add(query, "CASE WHEN current_setting('%s') <> '%s' THEN '%s' END, ", name, value, name);
}

/* PostgreSQL shows a duration in the largest unit of which it is a multiple. */
static void add_limit(struct query *query, const char *name, unsigned ms)
{
    static const struct {
        unsigned ms;
        const char *unit;
    } units[] = {{DAY_MS, "d"}, {HOUR_MS, "h"}, {MINUTE_MS, "min"}, {SECOND_MS, "s"}, {1, "ms"}};
    char value[24];
    size_t i = 0;

    while (ms % units[i].ms)
        i++;
    snprintf(value, sizeof value, "%u%s", ms / units[i].ms, units[i].unit);
    add_setting(query, name, value);
}

void pg_check_text(char text[PG_CHECK_SIZE], unsigned statement_ms, const char *mark)
{
    struct query query = {.text = text};

    add(&query, "SELECT concat_ws(', ', ");
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++)
        add_setting(&query, pinned[i].name, pinned[i].value);
    if (statement_ms) {
        add_limit(&query, "statement_timeout", statement_ms);
        add_limit(&query, "idle_in_transaction_session_timeout", statement_ms * 2);
    }
    add(&query,
        "CASE WHEN current_setting('" MARK "', true) <> '' THEN '" MARK "' END)"
        " || left(set_config('" MARK "', '%s', false), 0)",
        mark);
}

void pg_check_again_text(char text[PG_CHECK_SIZE], const char *select, const char *mark)
{
    snprintf(text, PG_CHECK_SIZE, "%s WHERE current_setting('" MARK "', true) = '%s'", select,
             mark);
}

bool pg_check_passed(const PGresult *result, char *problem, size_t size)
{
    bool answered = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1;
    const char *found = answered ? PQgetvalue(result, 0, 0) : NULL;

    if (!found)
        snprintf(problem, size, "%s", PQresultErrorMessage(result));
    else if (strstr(found, MARK))
        snprintf(problem, size, "%s", PG_CHECK_SHARED);
    else if (*found)
        snprintf(problem, size,
                 "the session does not have the settings that busbar asks for (%s): a connection "
                 "pooler drops them; connect to PostgreSQL itself",
                 found);
    return found && !*found;
}
