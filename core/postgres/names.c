#include "core/postgres/names.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/condition.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/base/thread.h"

enum {
    ADDRESS_SIZE = 64,
    FRESH_MS = 1000,  /* so long what was found is taken without asking again */
    PATIENCE_MS = 300 /* so long an answer is waited for before what was known is taken */
};

struct host {
    char *name, *port; /* the port "" is libpq's default */
    bool named;        /* neither a socket nor an address */
    char addresses[NAMES_ADDRESSES_MAX][ADDRESS_SIZE];
    size_t count;
};

struct names {
    struct host hosts[NAMES_HOSTS_MAX];
    size_t count;
    bool named; /* any of them */
    pthread_mutex_t lock;
    pthread_cond_t news;
    /* under the lock, with the addresses */
    int holders;      /* the owner, the thread */
    int64_t asked_ms; /* since when the thread looks; 0: it does not */
    int64_t found_ms; /* when it last came back; 0: never */
    unsigned turn;    /* which server is begun with */
    bool stop;
};

/* ---- the thread ----------------------------------------------------------------------------- */

static void release(struct names *names)
{
    pthread_mutex_lock(&names->lock);
    bool last = !--names->holders;

    pthread_mutex_unlock(&names->lock);
    if (!last)
        return;
    for (size_t i = 0; i < names->count; i++) {
        free(names->hosts[i].name);
        free(names->hosts[i].port);
    }
    pthread_cond_destroy(&names->news);
    pthread_mutex_destroy(&names->lock);
    free(names);
}

/* What was known stays where nothing is found: the name server may be ill. */
static void keep(struct names *names, struct host *host, const struct addrinfo *found)
{
    pthread_mutex_lock(&names->lock);
    host->count = 0;
    for (; found && host->count < NAMES_ADDRESSES_MAX; found = found->ai_next)
        host->count += !getnameinfo(found->ai_addr, found->ai_addrlen, host->addresses[host->count],
                                    ADDRESS_SIZE, NULL, 0, NI_NUMERICHOST);
    pthread_mutex_unlock(&names->lock);
}

static void look_up(struct names *names)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;

    for (size_t i = 0; i < names->count; i++) {
        if (!names->hosts[i].named || getaddrinfo(names->hosts[i].name, NULL, &hints, &found))
            continue;
        keep(names, &names->hosts[i], found);
        freeaddrinfo(found);
    }
}

static void *names_main(void *arg)
{
    struct names *names = arg;

    thread_name("names", NULL);
    pthread_mutex_lock(&names->lock);
    while (!names->stop) {
        if (!names->asked_ms) {
            pthread_cond_wait(&names->news, &names->lock);
            continue;
        }
        pthread_mutex_unlock(&names->lock);
        look_up(names);
        pthread_mutex_lock(&names->lock);
        names->asked_ms = 0;
        names->found_ms = clock_mono_ms();
        pthread_cond_broadcast(&names->news);
    }
    pthread_mutex_unlock(&names->lock);
    release(names);
    return NULL;
}

/* ---- making --------------------------------------------------------------------------------- */

static bool is_named(const char *host)
{
    struct in_addr address;

    return *host && !strchr("/@", *host) && !strchr(host, ':') &&
           inet_pton(AF_INET, host, &address) != 1;
}

/* The next of a list with commas; NULL: no memory. */
static char *take(const char **list)
{
    size_t length = strcspn(*list, ",");
    char *text = strndup(*list, length);

    *list += length + ((*list)[length] == ',');
    return text;
}

size_t names_length(const char *list)
{
    size_t count = 1;

    for (; (list = strchr(list, ',')); list++)
        count++;
    return count;
}

/* One port is that of all hosts. */
static int add_hosts(struct names *names, const char *hosts, const char *ports)
{
    bool each = strchr(ports, ',') != NULL;

    for (size_t left = names_length(hosts); left; left--) {
        struct host *host = &names->hosts[names->count++];

        host->name = take(&hosts);
        host->port = each ? take(&ports) : strdup(ports);
        if (!host->name || !host->port)
            return -1;
        host->named = is_named(host->name);
        names->named |= host->named;
    }
    return 0;
}

void names_wait(struct names *names, int64_t ms)
{
    int64_t until = clock_mono_ms() + ms;

    if (!names->named)
        return;
    pthread_mutex_lock(&names->lock);
    while (!names->found_ms && condition_wait(&names->news, &names->lock, until) != ETIMEDOUT)
        ;
    pthread_mutex_unlock(&names->lock);
}

/* Whoever comes first shall find what is quick to find. */
static int begin(struct names *names)
{
    pthread_t thread;

    if (!names->named)
        return 0;
    names->asked_ms = clock_mono_ms();
    names->holders++;
    if (pthread_create(&thread, NULL, names_main, names)) {
        names->holders--;
        return -1;
    }
    pthread_detach(thread);
    names_wait(names, PATIENCE_MS);
    return 0;
}

struct names *names_new(const char *hosts, const char *ports)
{
    struct names *names = calloc(1, sizeof *names);

    if (names) {
        names->holders = 1;
        pthread_mutex_init(&names->lock, NULL);
        condition_init(&names->news);
        if (!add_hosts(names, hosts, ports) && !begin(names))
            return names;
    }
    log_line(BB_ERROR, "names of servers cannot be looked up", NULL);
    names_free(names);
    return NULL;
}

/* ---- telling -------------------------------------------------------------------------------- */

static bool fits(const char *list, const char *text)
{
    return strlen(list) + strlen(text) + 2 <= NAMES_TEXT;
}

static void put(char list[NAMES_TEXT], bool first, const char *text)
{
    size_t used = strlen(list);

    snprintf(list + used, NAMES_TEXT - used, "%s%s", first ? "" : ",", text);
}

/* False: there is no room for it, in one of the lists. */
static bool put_host(struct names_found *found, bool first, const struct host *host,
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
    const char *address; /* "": the host is one, or a socket */
};

enum { SERVERS_MAX = NAMES_HOSTS_MAX * NAMES_ADDRESSES_MAX };

static size_t servers_of(const struct names *names, struct server servers[SERVERS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < names->count; i++) {
        const struct host *host = &names->hosts[i];

        if (!host->named)
            servers[count++] = (struct server){host, ""};
        for (size_t k = 0; k < host->count; k++)
            servers[count++] = (struct server){host, host->addresses[k]};
    }
    return count;
}

static enum names_state tell(const struct names *names, struct names_found *found)
{
    struct server servers[SERVERS_MAX];
    size_t count = servers_of(names, servers);

    found->turn = names->turn;
    for (size_t i = 0; i < count; i++) {
        const struct server *server = &servers[(names->turn + i) % count];

        if (!put_host(found, !i, server->host, server->address))
            break;
    }
    return count ? NAMES_FOUND : NAMES_NONE;
}

static void ask_again(struct names *names, int64_t now)
{
    if (!names->named || names->asked_ms || now - names->found_ms <= FRESH_MS)
        return;
    names->asked_ms = now;
    pthread_cond_broadcast(&names->news);
}

enum names_state names_look(struct names *names, struct names_found *found)
{
    int64_t now = clock_mono_ms();

    found->turn = 0;
    if (!names || (!names->named && names->count < 2))
        return NAMES_PLAIN;
    pthread_mutex_lock(&names->lock);
    ask_again(names, now);
    bool later = names->asked_ms && now - names->asked_ms < PATIENCE_MS;
    enum names_state state = later ? NAMES_LATER : tell(names, found);

    pthread_mutex_unlock(&names->lock);
    return state;
}

static bool is_server(const struct server *server, const char *host, const char *address,
                      const char *port)
{
    return !strcmp(server->host->name, host) &&
           (!*server->address || !strcmp(server->address, address)) &&
           (!*server->host->port || !strcmp(server->host->port, port));
}

/* How many there are up to this one, with it, from the one whose turn it is. */
static unsigned servers_to(const struct names *names, const char *host, const char *address,
                           const char *port)
{
    struct server servers[SERVERS_MAX];
    size_t count = servers_of(names, servers);

    for (unsigned i = 0; i < count; i++) {
        if (is_server(&servers[(names->turn + i) % count], host, address, port))
            return i + 1;
    }
    return 1;
}

void names_pass_by(struct names *names, unsigned turn, const char *host, const char *address,
                   const char *port)
{
    if (!names)
        return;
    pthread_mutex_lock(&names->lock);
    if (names->turn == turn) /* many find it silent at a time */
        names->turn += servers_to(names, host, address, port);
    pthread_mutex_unlock(&names->lock);
}

void names_free(struct names *names)
{
    if (!names)
        return;
    pthread_mutex_lock(&names->lock);
    names->stop = true;
    pthread_cond_broadcast(&names->news);
    pthread_mutex_unlock(&names->lock);
    release(names);
}
