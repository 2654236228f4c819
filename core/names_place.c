/* Which names there are in the places of PostgreSQL and Redis. */
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"

static const char *option(const PQconninfoOption *options, const char *keyword)
{
    while (options && options->keyword && strcmp(options->keyword, keyword) != 0)
        options++;
    return options && options->keyword && options->val ? options->val : "";
}

/* What libpq takes from elsewhere, or would refuse, is left to it. */
struct names *names_of_database(const char *conninfo)
{
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    const char *host = option(options, "host"), *port = option(options, "port");
    bool plain = *option(options, "hostaddr") || *option(options, "service") ||
                 names_length(host) > NAMES_HOSTS_MAX ||
                 (strchr(port, ',') && names_length(port) != names_length(host));
    const char *usual = getenv("PGPORT");
    struct names *names = names_new(plain ? "" : host, *port || !usual ? port : usual);

    PQconninfoFree(options);
    return names;
}

struct names *names_of_redis(const char *url)
{
    const char *colon = strncmp(url, "unix:", 5) ? strrchr(url, ':') : NULL;
    char *host = strndup(url, colon ? (size_t)(colon - url) : 0);
    bool plain = host && strchr(host, ',') != NULL;
    struct names *names = host ? names_new(plain ? "" : host, colon ? colon + 1 : "") : NULL;

    free(host);
    return names;
}
