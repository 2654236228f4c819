#include "core/store/resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/condition.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"

enum {
    ADDRESS_SIZE = 64,
    FRESH_MS = 1000,  /* a result is used for this time without a new lookup */
    PATIENCE_MS = 300 /* wait for a lookup for this time before using the previous result */
};

struct host {
    char *name, *port; /* the port "" is libpq's default */
    bool named;        /* neither a socket nor an address */
    char addresses[RESOLVER_ADDRESSES_MAX][ADDRESS_SIZE];
    size_t count;
};

struct resolver {
    struct host hosts[RESOLVER_HOSTS_MAX];
    size_t count;
    bool named; /* whether any of the hosts is a name */
    pthread_mutex_t lock;
    pthread_cond_t news;
    /* protected by the lock, like the addresses */
    int holders;      /* the owner and the thread */
    int64_t asked_ms; /* start of the current lookup; 0: none */
    int64_t found_ms; /* end of the last lookup; 0: none yet */
    unsigned turn;    /* index of the server at which lists begin */
    bool stop;
};

/* ---- the thread ----------------------------------------------------------------------------- */

static void release(struct resolver *resolver)
{
    pthread_mutex_lock(&resolver->lock);
    bool last = !--resolver->holders;

    pthread_mutex_unlock(&resolver->lock);
    if (!last)
        return;
    for (size_t i = 0; i < resolver->count; i++) {
        free(resolver->hosts[i].name);
        free(resolver->hosts[i].port);
    }
    pthread_cond_destroy(&resolver->news);
    pthread_mutex_destroy(&resolver->lock);
    free(resolver);
}

/* Keeps the previous addresses if nothing is found: the name server may be faulty. */
static void keep(struct resolver *resolver, struct host *host, const struct addrinfo *found)
{
    pthread_mutex_lock(&resolver->lock);
    host->count = 0;
    for (; found && host->count < RESOLVER_ADDRESSES_MAX; found = found->ai_next)
        host->count += !getnameinfo(found->ai_addr, found->ai_addrlen, host->addresses[host->count],
                                    ADDRESS_SIZE, NULL, 0, NI_NUMERICHOST);
    pthread_mutex_unlock(&resolver->lock);
}

static void look_up(struct resolver *resolver)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;

    for (size_t i = 0; i < resolver->count; i++) {
        if (!resolver->hosts[i].named || getaddrinfo(resolver->hosts[i].name, NULL, &hints, &found))
            continue;
        keep(resolver, &resolver->hosts[i], found);
        freeaddrinfo(found);
    }
}

static void *resolver_main(void *arg)
{
    struct resolver *resolver = arg;

    thread_name("resolver", NULL);
    pthread_mutex_lock(&resolver->lock);
    while (!resolver->stop) {
        if (!resolver->asked_ms) {
            pthread_cond_wait(&resolver->news, &resolver->lock);
            continue;
        }
        pthread_mutex_unlock(&resolver->lock);
        look_up(resolver);
        pthread_mutex_lock(&resolver->lock);
        resolver->asked_ms = 0;
        resolver->found_ms = clock_mono_ms();
        pthread_cond_broadcast(&resolver->news);
    }
    pthread_mutex_unlock(&resolver->lock);
    release(resolver);
    return NULL;
}

/* ---- creation ------------------------------------------------------------------------------ */

static bool is_named(const char *host)
{
    struct in_addr address;

    return *host && !strchr("/@", *host) && !strchr(host, ':') &&
           inet_pton(AF_INET, host, &address) != 1;
}

/* Returns the next item of a comma-separated list; NULL: out of memory. */
static char *take(const char **list)
{
    size_t length = strcspn(*list, ",");
    char *text = strndup(*list, length);

    *list += length + ((*list)[length] == ',');
    return text;
}

size_t resolver_length(const char *list)
{
    size_t count = 1;

    for (; (list = strchr(list, ',')); list++)
        count++;
    return count;
}

/* A single port applies to all hosts. */
static int add_hosts(struct resolver *resolver, const char *hosts, const char *ports)
{
    bool each = strchr(ports, ',') != NULL;

    for (size_t left = resolver_length(hosts); left; left--) {
        struct host *host = &resolver->hosts[resolver->count++];

        host->name = take(&hosts);
        host->port = each ? take(&ports) : strdup(ports);
        if (!host->name || !host->port)
            return -1;
        host->named = is_named(host->name);
        resolver->named |= host->named;
    }
    return 0;
}

void resolver_wait(struct resolver *resolver, int64_t ms)
{
    int64_t until = clock_mono_ms() + ms;

    if (!resolver->named)
        return;
    pthread_mutex_lock(&resolver->lock);
    while (!resolver->found_ms &&
           condition_wait(&resolver->news, &resolver->lock, until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&resolver->lock);
}

/* Waits a little, so that the first caller gets the result of a quick lookup. */
static int begin(struct resolver *resolver)
{
    pthread_t thread;

    if (!resolver->named)
        return 0;
    resolver->asked_ms = clock_mono_ms();
    resolver->holders++;
    if (pthread_create(&thread, NULL, resolver_main, resolver)) {
        resolver->holders--;
        return -1;
    }
    pthread_detach(thread);
    resolver_wait(resolver, PATIENCE_MS);
    return 0;
}

struct resolver *resolver_new(const char *hosts, const char *ports)
{
    struct resolver *resolver = calloc(1, sizeof *resolver);

    if (resolver) {
        resolver->holders = 1;
        pthread_mutex_init(&resolver->lock, NULL);
        condition_init(&resolver->news);
        if (!add_hosts(resolver, hosts, ports) && !begin(resolver))
            return resolver;
    }
    log_line(BB_ERROR, "names of servers cannot be looked up", NULL);
    resolver_free(resolver);
    return NULL;
}

/* ---- results ------------------------------------------------------------------------------- */

static bool fits(const char *list, const char *text)
{
    return strlen(list) + strlen(text) + 2 <= RESOLVER_TEXT;
}

static void put(char list[RESOLVER_TEXT], bool first, const char *text)
{
    size_t used = strlen(list);

    snprintf(list + used, RESOLVER_TEXT - used, "%s%s", first ? "" : ",", text);
}

/* Returns false if one of the lists has no room for it. */
static bool put_host(struct resolver_found *found, bool first, const struct host *host,
                     const char *address)
{
    if (first)
        *found->host = *found->hostaddr = *found->port = '\0';
    if (!fits(found->host, host->name) || !fits(found->hostaddr, address) ||
        !fits(found->port, host->port))
        return false;
    put(found->host, first, host->name);
    put(found->hostaddr, first, address);
    put(found->port, first, host->port);
    return true;
}

struct server {
    const struct host *host;
    const char *address; /* "": the host is an address or a socket */
};

enum { SERVERS_MAX = RESOLVER_HOSTS_MAX * RESOLVER_ADDRESSES_MAX };

static size_t servers_of(const struct resolver *resolver, struct server servers[SERVERS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < resolver->count; i++) {
        const struct host *host = &resolver->hosts[i];

        if (!host->named)
            servers[count++] = (struct server){host, ""};
        for (size_t k = 0; k < host->count; k++)
            servers[count++] = (struct server){host, host->addresses[k]};
    }
    return count;
}

static enum resolver_state tell(const struct resolver *resolver, struct resolver_found *found)
{
    struct server servers[SERVERS_MAX];
    size_t count = servers_of(resolver, servers);

    found->turn = resolver->turn;
    for (size_t i = 0; i < count; i++) {
        const struct server *server = &servers[(resolver->turn + i) % count];

        if (!put_host(found, !i, server->host, server->address))
            break;
    }
    return count ? RESOLVER_FOUND : RESOLVER_NONE;
}

static void ask_again(struct resolver *resolver, int64_t now)
{
    if (!resolver->named || resolver->asked_ms || now - resolver->found_ms <= FRESH_MS)
        return;
    resolver->asked_ms = now;
    pthread_cond_broadcast(&resolver->news);
}

enum resolver_state resolver_look_up(struct resolver *resolver, struct resolver_found *found)
{
    int64_t now = clock_mono_ms();

    found->turn = 0;
    if (!resolver || (!resolver->named && resolver->count < 2))
        return RESOLVER_PLAIN;
    pthread_mutex_lock(&resolver->lock);
    ask_again(resolver, now);
    bool later = resolver->asked_ms && now - resolver->asked_ms < PATIENCE_MS;
    enum resolver_state state = later ? RESOLVER_LATER : tell(resolver, found);

    pthread_mutex_unlock(&resolver->lock);
    return state;
}

static bool is_server(const struct server *server, const char *host, const char *address,
                      const char *port)
{
    return !strcmp(server->host->name, host) &&
           (!*server->address || !strcmp(server->address, address)) &&
           (!*server->host->port || !strcmp(server->host->port, port));
}

/* Returns the number of servers from the current one to this one, inclusive. */
static unsigned servers_to(const struct resolver *resolver, const char *host, const char *address,
                           const char *port)
{
    struct server servers[SERVERS_MAX];
    size_t count = servers_of(resolver, servers);

    for (unsigned i = 0; i < count; i++) {
        if (is_server(&servers[(resolver->turn + i) % count], host, address, port))
            return i + 1;
    }
    return 1;
}

void resolver_rotate(struct resolver *resolver, unsigned turn, const char *host,
                     const char *address, const char *port)
{
    if (!resolver)
        return;
    pthread_mutex_lock(&resolver->lock);
    if (resolver->turn == turn) /* many callers may report it at the same time */
        resolver->turn += servers_to(resolver, host, address, port);
    pthread_mutex_unlock(&resolver->lock);
}

void resolver_free(struct resolver *resolver)
{
    if (!resolver)
        return;
    pthread_mutex_lock(&resolver->lock);
    resolver->stop = true;
    pthread_cond_broadcast(&resolver->news);
    pthread_mutex_unlock(&resolver->lock);
    release(resolver);
}
