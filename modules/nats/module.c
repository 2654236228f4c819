/*
 * nats: publishes the events of webhooks with the destination "nats" to NATS JetStream.
 *
 * A job on one host at a time gets the events in the order of their commits from the service "event
 * log". A pool thread publishes one event after the other, and waits for each acknowledgement of
 * JetStream, so a stream has the events in the same order. After any failure the connection
 * is closed, and the next run of the job connects to the next server. So libnats never buffers
 * messages and never reconnects on its own. An event that is published twice has the same
 * Nats-Msg-Id, and JetStream drops the second message.
 */
#include <nats/nats.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <busbar/busbar.h>

#include "modules/common/tables.h"

enum { SERVER_MAX = 256, REASON_SIZE = 512, SUBJECT_SIZE = 256, LOG_MS = 60000 };

#define POOL "publish"

struct nats_settings {
    const char *subject, *credentials, *user, *password, *authorities, *certificate, *key;
    json_t *servers;
    int64_t timeout;
};

/* The state of the module. Each reload of the configuration creates another one. */
struct nats {
    const struct nats_settings *settings;
    struct bb_service log;
    natsConnection *connection; /* only the pool's thread and nats_close() use these three */
    jsCtx *jetstream;
    size_t server;        /* index of the server to connect to */
    bool failed;          /* an event could not be published in this run of the job */
    int64_t logged_ms;    /* when a failure was last logged; 0: events can be published */
    atomic_llong late_ms; /* age of the event that could not be published; 0: none */
};

enum { NATS_METRIC_EVENTS };
enum { NATS_PUBLISHED, NATS_FAILED };

/* ---- the pool's thread ---- */

struct batch {
    struct nats *nats;
    const struct bb_logged_event *events;
    size_t count, published;
    char reason[REASON_SIZE]; /* why an event was not published */
};

static void nats_disconnect(struct nats *nats)
{
    jsCtx_Destroy(nats->jetstream);
    natsConnection_Destroy(nats->connection);
    nats->jetstream = NULL;
    nats->connection = NULL;
}

/* Sets TLS and the name that the server's certificate must have. */
static natsStatus nats_secure(const struct nats_settings *settings, natsOptions *options,
                              const char *url)
{
    /* server_problem() has checked the URL. */
    const char *from = url + strlen("tls://");
    const char *end = *from == '[' ? strchr(from, ']') : from + strcspn(from, ":/");
    char host[SERVER_MAX];
    natsStatus status = natsOptions_SetSecure(options, true);

    from += *from == '[';
    snprintf(host, SERVER_MAX, "%.*s", (int)(end - from), from);
    status = status ? status : natsOptions_SetExpectedHostname(options, host);
    if (status == NATS_OK && *settings->authorities)
        status = natsOptions_LoadCATrustedCertificates(options, settings->authorities);
    if (status == NATS_OK && *settings->certificate)
        status = natsOptions_LoadCertificatesChain(options, settings->certificate, settings->key);
    return status;
}

static natsStatus nats_connect(struct nats *nats)
{
    const struct nats_settings *settings = nats->settings;
    const char *url = json_string_value(json_array_get(settings->servers, nats->server));
    jsOptions jetstream;
    natsOptions *options = NULL;
    natsStatus status = natsOptions_Create(&options);

    status = status ? status : natsOptions_SetURL(options, url);
    status = status ? status : natsOptions_SetName(options, "busbar");
    status = status ? status : natsOptions_SetTimeout(options, settings->timeout * 1000);
    status = status ? status : natsOptions_SetAllowReconnect(options, false);
    if (status == NATS_OK && *settings->user)
        status = natsOptions_SetUserInfo(options, settings->user, settings->password);
    if (status == NATS_OK && *settings->credentials)
        status = natsOptions_SetUserCredentialsFromFiles(options, settings->credentials, NULL);
    if (status == NATS_OK && !strncmp(url, "tls://", strlen("tls://")))
        status = nats_secure(settings, options, url);
    status = status ? status : natsConnection_Connect(&nats->connection, options);
    natsOptions_Destroy(options);
    status = status ? status : jsOptions_Init(&jetstream);
    jetstream.Wait = settings->timeout * 1000;
    return status ? status
                  : natsConnection_JetStream(&nats->jetstream, nats->connection, &jetstream);
}

static void nats_publish_batch(void *arg)
{
    struct batch *batch = arg;
    struct nats *nats = batch->nats;
    natsStatus status = nats->jetstream ? NATS_OK : nats_connect(nats);

    while (status == NATS_OK && batch->published < batch->count) {
        const struct bb_logged_event *event = &batch->events[batch->published];
        char subject[SUBJECT_SIZE];
        jsPubOptions options;

        status = jsPubOptions_Init(&options);
        options.MsgId = event->id;
        snprintf(subject, sizeof(subject), "%s.%s", nats->settings->subject, event->name);
        if (status == NATS_OK)
            status = js_Publish(NULL, nats->jetstream, subject, event->payload,
                                (int)strlen(event->payload), &options, NULL);
        batch->published += status == NATS_OK;
    }
    if (status == NATS_OK)
        return;
    const char *detail = nats_GetLastError(NULL);

    snprintf(batch->reason, sizeof(batch->reason), "%s%s%s", natsStatus_GetText(status),
             detail && *detail ? ": " : "", detail ? detail : "");
    nats_disconnect(nats);
    nats->server = (nats->server + 1) % json_array_size(nats->settings->servers);
}

/* ---- the service and the job ---- */

static size_t nats_publish(struct bb_request *rq, const struct bb_logged_event *events,
                           size_t count)
{
    struct nats *nats = rq->state;
    struct batch batch = {.nats = nats, .events = events, .count = count};

    nats->failed = true;
    if (bb_offload(rq, POOL, nats_publish_batch, &batch))
        return 0;
    nats->failed = batch.published < count;
    bb_metric_add(rq->host, NATS_METRIC_EVENTS, NATS_PUBLISHED, batch.published);
    bb_metric_add(rq->host, NATS_METRIC_EVENTS, NATS_FAILED, nats->failed);
    if (nats->failed)
        atomic_store(&nats->late_ms, bb_wall_ms(rq->host) - events[batch.published].created_ms);
    if (nats->failed && (!nats->logged_ms || bb_now_ms(rq->host) - nats->logged_ms >= LOG_MS)) {
        bb_log(rq, BB_WARN, "an event cannot be published, retrying every second: %s",
               batch.reason);
        nats->logged_ms = bb_now_ms(rq->host);
    }
    return batch.published;
}

static void nats_run(struct bb_request *rq)
{
    struct nats *nats = rq->state;

    nats->failed = false;
    int more = bb_forward(nats->log, rq, "nats");

    if (more > 0)
        bb_again(rq);
    if (more || nats->failed || !nats->logged_ms)
        return;
    bb_log(rq, BB_INFO, "events can be published again"); /* no event is waiting any more */
    nats->logged_ms = 0;
    atomic_store(&nats->late_ms, 0);
}

static double nats_late(void *state, size_t value)
{
    (void)value;
    return (double)atomic_load(&((struct nats *)state)->late_ms) / 1000;
}

/* ---- opening and closing ---- */

/* Returns why a server's URL is invalid, or NULL if it is valid. */
static const char *server_problem(const char *url)
{
    const char *host = url + strcspn(url, ":");

    if (strncmp(url, "nats://", strlen("nats://")) != 0 &&
        strncmp(url, "tls://", strlen("tls://")) != 0)
        return "must begin with nats:// or tls://";
    host += strlen("://");
    if (!*host || strpbrk(host, "@/?# ,\t") || (*host == '[' && !strchr(host, ']')))
        return "must be a name or an address, and a port if it is not 4222; use nats.user and "
               "nats.password for a login";
    return NULL;
}

static int nats_open(struct bb_host *host, void **state)
{
    struct nats *nats = bb_host_alloc(host, sizeof(*nats));

    if (!nats)
        return bb_open_fail(host, "out of memory");
    nats->settings = bb_settings(host);
    nats->log = bb_service(host, "event log");
    *state = nats;
    const char *const files[] = {nats->settings->credentials, nats->settings->authorities,
                                 nats->settings->certificate, nats->settings->key};
    const json_t *server;
    size_t i;

    if (!json_array_size(nats->settings->servers))
        return bb_open_fail(host, "servers: must have at least one server");
    json_array_foreach (nats->settings->servers, i, server) {
        const char *url = json_string_value(server), *problem = server_problem(url);

        if (problem)
            return bb_open_fail(host, "servers: item %zu %s", i + 1, problem);
        if (*nats->settings->user && strncmp(url, "tls://", strlen("tls://")) != 0)
            return bb_open_fail(host, "user: a password is not sent without TLS");
    }
    if (strpbrk(nats->settings->subject, " \t*>") || strstr(nats->settings->subject, "..") ||
        *nats->settings->subject == '.' ||
        nats->settings->subject[strlen(nats->settings->subject) - 1] == '.')
        return bb_open_fail(host, "subject: must be words with full stops between them");
    if (!*nats->settings->certificate != !*nats->settings->key)
        return bb_open_fail(host, "certificate: needs key, and key needs certificate");
    for (i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (*files[i] && access(files[i], R_OK))
            return bb_open_fail(host, "%s cannot be read", files[i]);
    return 0;
}

static void nats_close(struct bb_host *host, void *state)
{
    (void)host;
    nats_disconnect(state);
}

// clang-format off

#define SETTINGS struct nats_settings

static const struct bb_field server_item[] = {
    {.name = "item", .type = BB_TEXT, .flags = BB_VERBATIM, .max = SERVER_MAX - 1},
};
static const struct bb_field settings[] = {
    {.name = "servers", .type = BB_LIST, .max = 16, .fallback = "[\"nats://127.0.0.1:4222\"]",
     .fields = BB_TABLE(server_item), .bind = BB_BIND(struct nats_settings, servers),
     .help = "URLs of the servers of a cluster: nats://HOST:PORT, or tls://HOST:PORT. If one fails, "
             "the next one is used."},
    {.name = "subject", .type = BB_TEXT, .min = 1, .max = 100, .fallback = "busbar",
     .bind = BB_BIND(struct nats_settings, subject),
     .help = "First words of the subjects. The subject of an event is this text, a full stop and the "
             "event's name: busbar.message.new."},
    SETTING_TEXT(credentials, BB_VERBATIM, 1024, "",
        "File with a user's JWT and seed (.creds), for decentralized authentication. Empty: none."),
    SETTING_TEXT(user, 0, 255, "", "User name for the login. Empty: no login."),
    SETTING_TEXT(password, BB_SECRET, 1024, "", "Password of the user."),
    SETTING_TEXT(authorities, BB_VERBATIM, 1024, "",
        "PEM file of the authorities that may sign the servers' certificates. Empty: the system's "
        "authorities."),
    SETTING_TEXT(certificate, BB_VERBATIM, 1024, "",
        "PEM file with the client certificate. Empty: none."),
    SETTING_TEXT(key, BB_VERBATIM, 1024, "",
        "PEM file with the private key of the client certificate."),
    SETTING_INT(timeout, BB_SECONDS, 1, 30, "5",
        "Seconds to wait for a connection, and for the acknowledgement of an event."),
};

static const struct bb_destination destination = {.size = sizeof(destination), .publish = nats_publish};
static const struct bb_service_descriptor services[] = {
    {.name = BB_DESTINATION "nats", .version = 1, .interface = &destination},
};
static const struct bb_need needs[] = {{"event log", 1}};
static const struct bb_job jobs[] = {
    {.name = "nats.publish", .every_s = 1, .flags = BB_ONCE, .run = nats_run},
};
static const struct bb_pool pools[] = {{.name = POOL, .threads = 1, .queue = 1}};

static const char *const outcomes[] = {"published", "failed", NULL};
static const struct bb_metric metrics[] = {
    {.name = "events_total", .kind = BB_COUNTER, .label = "outcome", .values = outcomes,
     .help = "Events by outcome. failed: each failed attempt; the event is published again."},
    {.name = "lag_seconds", .kind = BB_GAUGE, .read = nats_late,
     .help = "Age of the event that this host could not publish in its last run; 0: it published all "
             "events."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("nats", "1.0.0"),
    .help = "Publishes events to NATS JetStream.",
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct nats_settings),
    .services = BB_TABLE(services),
    .needs = BB_TABLE(needs),
    .jobs = BB_TABLE(jobs),
    .pools = BB_TABLE(pools),
    .metrics = BB_TABLE(metrics),
    .open = nats_open,
    .close = nats_close,
};
