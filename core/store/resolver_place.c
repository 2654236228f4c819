/* Extracts the host names from the settings for PostgreSQL and Redis. */
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/store/resolver.h"

static const char *option(const PQconninfoOption *options, const char *keyword)
{
    while (options && options->keyword && strcmp(options->keyword, keyword) != 0)
        options++;
    return options && options->keyword && options->val ? options->val : "";
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value ? value : "";
}

/* Parameters that libpq takes from elsewhere or would refuse are left to libpq. */
static bool is_libpqs(const PQconninfoOption *options, const char *host, const char *port)
{
    return *option(options, "hostaddr") || *option(options, "service") || *variable("PGHOSTADDR") ||
           *variable("PGSERVICE") || resolver_length(host) > RESOLVER_HOSTS_MAX ||
           (strchr(port, ',') && resolver_length(port) != resolver_length(host));
}

struct resolver *resolver_of_database(const char *conninfo)
{
    PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
    const char *host = option(options, "host"), *port = option(options, "port");

    if (!*host)
        host = variable("PGHOST");
    if (!*port)
        port = variable("PGPORT");
    struct resolver *resolver = resolver_new(is_libpqs(options, host, port) ? "" : host, port);

    PQconninfoFree(options);
    return resolver;
}

struct resolver *resolver_of_redis(const char *url)
{
    const char *colon = strncmp(url, "unix:", 5) ? strrchr(url, ':') : NULL;
    char *host = strndup(url, colon ? (size_t)(colon - url) : 0);
    bool plain = host && strchr(host, ',') != NULL;
    struct resolver *resolver =
        host ? resolver_new(plain ? "" : host, colon ? colon + 1 : "") : NULL;

    free(host);
    return resolver;
}
