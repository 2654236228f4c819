#include "core/lib/redis_url.h"

#include <stdlib.h>
#include <string.h>

#include "core/lib/text.h"

enum { DATABASE_MAX = 65535, PORT_MAX = 65535 };

/* Reads the decimal number from `at` to `end`. Returns -1 if it is above `most` or invalid. */
static long url_number(const char *at, const char *end, long most)
{
    size_t digits = strspn(at, "0123456789");
    long number = strtol(at, NULL, 10);

    return digits && at + digits == end && number <= most ? number : -1;
}

/* Reads "host", "host:port" or "[address]:port". `port`: the default; NULL: a port is required. */
static int url_server(const char *at, const char *end, const char *port, struct arena *arena,
                      struct redis_server *server)
{
    const char *host = at, *host_end = memchr(at, ':', (size_t)(end - at));
    const char *after;

    if (at < end && *at == '[') {
        host_end = memchr(at, ']', (size_t)(end - at));
        if (!host_end)
            return -1;
        host++;
        after = host_end + 1;
    } else {
        host_end = host_end ? host_end : end;
        after = host_end;
    }
    if (host == host_end || memchr(host, '@', (size_t)(host_end - host)))
        return -1;
    if (after < end) {
        if (*after != ':' || url_number(after + 1, end, PORT_MAX) < 1)
            return -1;
        port = arena_text(arena, after + 1, (size_t)(end - after) - 1);
    }
    server->host = arena_text(arena, host, (size_t)(host_end - host));
    server->port = port;
    return server->host && port ? 0 : -1;
}

static int url_decode(const char *at, const char *end, struct arena *arena, const char **out)
{
    *out = text_percent(at, (size_t)(end - at), false, arena);
    return *out && **out ? 0 : -1;
}

/* Reads "/database" or, for Sentinel, "/name/database". "/database" is optional. */
static int url_path(const char *at, bool sentinel, struct arena *arena, struct redis_url *url)
{
    const char *end = at + strlen(at);

    if (sentinel) {
        const char *name = at + (*at == '/');

        at = name + strcspn(name, "/");
        if (url_decode(name, at, arena, &url->master))
            return -1;
    }
    if (*at == '/' && at[1]) {
        long database = url_number(at + 1, end, DATABASE_MAX);

        url->database = (unsigned)database;
        return database < 0 ? -1 : 0;
    }
    return 0;
}

int redis_url_parse(const char *text, struct arena *arena, struct redis_url *url)
{
    static const char *const schemes[] = {"redis://", "rediss://", "redis+sentinel://",
                                          "rediss+sentinel://"};
    size_t scheme = 0;

    *url = (struct redis_url){0};
    if (!strncmp(text, "unix:/", 6)) {
        url->path = text + 5;
        return 0;
    }
    while (scheme < 4 && strncmp(text, schemes[scheme], strlen(schemes[scheme])) != 0)
        scheme++;
    if (scheme == 4) {
        url->count = 1;
        return strpbrk(text, "/@,")
                   ? -1
                   : url_server(text, text + strlen(text), NULL, arena, &url->servers[0]);
    }
    bool sentinel = scheme >= 2;
    const char *at = text + strlen(schemes[scheme]), *end = at + strcspn(at, "/");
    const char *account_end = memrchr(at, '@', (size_t)(end - at));

    url->tls = scheme % 2;
    if (account_end) {
        const char *colon = memchr(at, ':', (size_t)(account_end - at));

        if (colon > at && url_decode(at, colon, arena, &url->user))
            return -1;
        if (url_decode(colon ? colon + 1 : at, account_end, arena, &url->password))
            return -1;
        at = account_end + 1;
    }
    while (at <= end) {
        const char *comma = memchr(at, ',', (size_t)(end - at)), *stop = comma ? comma : end;

        if (url->count == (sentinel ? REDIS_SERVERS_MAX : 1) ||
            url_server(at, stop, sentinel ? "26379" : "6379", arena, &url->servers[url->count++]))
            return -1;
        at = stop + 1;
    }
    return url_path(end, sentinel, arena, url);
}
