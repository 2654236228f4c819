/* Attempts: selects the next delivery, sends its request, and handles the response. */
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "modules/common/hash.h"
#include "modules/webhook/sender/internal.h"

enum {
    PUT_OFF_MS = 500,
    BODY_MAX = 65536, /* of a response, in bytes */
    KEPT = 1024,      /* bytes of a body that the log keeps */
    HEADERS = 11,
    HEADER_ROOM = 320,
    SENT_ROOM = 4096, /* bytes of the request's headers that the log keeps */
    SESSIONS_MS = 3600000,
    CHECKED = 8 /* receivers that receiver_take() checks at a time, to free unused ones */
};

/* TLS sessions, with a count of holders: libcurl cannot free a share that a request uses. */
struct receiver_sessions {
    CURLSH *share;
    size_t holders;
    int64_t made_ms;
};

/*
 * A request to a receiver. Attempts are reused. The libcurl handle is reused too, unless the
 * request failed: libcurl 8.14 (Debian 13) leaks the name of a failed look-up when the handle looks
 * up another name (curl issue 17602).
 */
struct attempt {
    SLIST_ENTRY(attempt) next; /* in sender->attempts */
    struct sender *sender;
    struct delivery *delivery;
    struct receiver *receiver;
    struct receiver_sessions *sessions;
    struct parts *parts; /* of the webhook when the attempt began */
    unsigned version;    /* of the webhook at that time */
    struct http_request http;
    struct curl_slist headers[HEADERS];
    char lines[HEADERS][HEADER_ROOM];
    size_t header_count, known; /* the log omits the first `known` headers */
    struct curl_slist bearer;   /* header with the access token; data NULL: no token */
    struct oauth_waiter waiter; /* for the access token */
    bool waiting;               /* counted in receiver->waiting */
    bool unsent;                /* not sent, because of the lease, a pause or a change */
};

/* ---- receivers ------------------------------------------------------------------------------ */

/* NULL is allowed. */
static void receiver_sessions_release(struct receiver_sessions *sessions)
{
    if (!sessions || --sessions->holders)
        return;
    curl_share_cleanup(sessions->share); /* NULL is allowed, also for curl_share_setopt() */
    free(sessions);
}

static struct receiver_sessions *receiver_sessions_new(int64_t now_ms)
{
    struct receiver_sessions *sessions = calloc(1, sizeof(*sessions));

    if (!sessions)
        return NULL;
    sessions->share = curl_share_init();
    sessions->made_ms = now_ms;
    sessions->holders = 1;
    if (!curl_share_setopt(sessions->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION))
        return sessions;
    receiver_sessions_release(sessions);
    return NULL;
}

static void receiver_forget(struct sender *sender, struct receiver *receiver)
{
    idmap_remove(&sender->receivers, &receiver->node);
    TAILQ_REMOVE(&sender->receivers_by_use, receiver, by_use);
    receiver_sessions_release(receiver->sessions);
    free(receiver);
}

/*
 * Returns the receiver of a URL, or NULL if out of memory. Counts an attempt in `flying` and in
 * `waiting`, and adds a holder to the sessions. Two spellings of an origin are two receivers. Two
 * origins with the same hash are one receiver, but libcurl compares host and port before it uses a
 * session.
 *
 * Every attempt gets a share, even without TLS: a handle used without a share allocates its own
 * session storage, which libcurl 7.88 leaks when the handle gets a share.
 */
static struct receiver *receiver_take(struct sender *sender, const char *url)
{
    size_t most = (size_t)sender->settings->connections; /* maximum, unless more are in use */
    int64_t now_ms = http_clock_ms();
    const char *host = strstr(url, "://");
    size_t before = host ? (size_t)(host - url) + 3 : 0;
    int64_t id = (int64_t)hash_bytes(HASH_SEED, url, before + strcspn(url + before, "/?#"));
    struct idmap_node *node = idmap_find(&sender->receivers, id);
    struct receiver *receiver = (struct receiver *)(void *)node;
    struct receiver *unused = TAILQ_FIRST(&sender->receivers_by_use);

    if (receiver) {
        TAILQ_REMOVE(&sender->receivers_by_use, receiver, by_use);
    } else {
        /* Checks only a few, because receivers that were not used for long are usually idle. */
        for (int i = 0; unused && i < CHECKED && sender->receivers.count >= most; i++) {
            struct receiver *next = TAILQ_NEXT(unused, by_use);

            if (!unused->flying && !unused->open)
                receiver_forget(sender, unused);
            unused = next;
        }
        receiver = calloc(1, sizeof(*receiver));
        if (!receiver)
            return NULL;
        receiver->node.id = id;
        receiver->sender = sender;
        idmap_add(&sender->receivers, &receiver->node);
    }
    TAILQ_INSERT_TAIL(&sender->receivers_by_use, receiver, by_use);
    if (!receiver->sessions || now_ms - receiver->sessions->made_ms >= SESSIONS_MS) {
        receiver_sessions_release(receiver->sessions);
        receiver->sessions = receiver_sessions_new(now_ms);
    }
    if (!receiver->sessions)
        return NULL;
    receiver->sessions->holders++;
    receiver->flying++;
    receiver->waiting++;
    return receiver;
}

/* ---- requests ------------------------------------------------------------------------------- */

static bool attempts_go_on(const void *sender)
{
    return lease_clock_ms() < ((const struct sender *)sender)->lease_until;
}

bool attempt_is_allowed(const struct sender *sender)
{
    return sender->me && attempts_go_on(sender);
}

static bool attempt_may_send(struct http_request *http)
{
    struct attempt *attempt = http->arg;

    attempt->unsent = !attempt_is_allowed(attempt->sender);
    return !attempt->unsent;
}

/*
 * Called after the headers of a response. If the receiver has enough other idle connections, makes
 * libcurl close this connection after the response. This also ends extra connections of a burst.
 */
static void attempt_headed(struct http_request *http)
{
    struct attempt *attempt = http->arg;
    struct receiver *receiver = attempt->receiver;
    size_t most = (size_t)attempt->sender->settings->connections_per_receiver;

    if (!attempt->waiting)
        return;
    attempt->waiting = false;
    receiver->waiting--;
    if (receiver->open > receiver->waiting + most)
        curl_easy_setopt(http->easy, CURLOPT_FORBID_REUSE, 1L);
}

/*
 * TCP_USER_TIMEOUT closes a connection whose peer acknowledges nothing for the timeout of a
 * request. TCP alone would retry for 15 minutes, and many requests may share a connection (HTTP/2).
 */
static curl_socket_t attempt_open_socket(void *arg, curlsocktype purpose,
                                         struct curl_sockaddr *address)
{
    struct attempt *attempt = arg;
    unsigned timeout_ms = (unsigned)attempt->http.timeout_ms;
    curl_socket_t fd = target_open_socket(&attempt->http.socket, purpose, address);

    if (fd == CURL_SOCKET_BAD)
        return fd;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    attempt->receiver->open++;
    return fd;
}

/*
 * After the end of the lease, another host may send this delivery and later deliveries. So the
 * kernel must drop unsent bytes, which it would otherwise send when the network works again.
 */
static int attempt_close_socket(void *arg, curl_socket_t fd)
{
    static const struct linger reset = {.l_onoff = 1};
    struct receiver *receiver = arg;

    receiver->open--;
    if (!attempts_go_on(receiver->sender))
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    return close(fd);
}

BB_PRINTF(2, 3)
static int attempt_header(struct attempt *attempt, const char *format, ...)
{
    struct curl_slist *node = &attempt->headers[attempt->header_count];
    va_list args;

    node->data = attempt->lines[attempt->header_count];
    node->next = NULL;
    if (attempt->header_count++)
        node[-1].next = node;
    va_start(args, format);
    int length = vsnprintf(node->data, HEADER_ROOM, format, args);
    va_end(args);
    return length < 0 || length >= HEADER_ROOM ? -1 : 0;
}

/*
 * Appends the header with an access token (NULL: none), and the headers that the webhook's owner
 * chose. Returns 0, or -1 if out of memory.
 */
static int attempt_add_headers(struct attempt *attempt, const char *token)
{
    struct curl_slist *last = &attempt->headers[attempt->header_count - 1];

    if (token) {
        attempt->bearer.data = strdup(token);
        if (!attempt->bearer.data)
            return -1;
        last = last->next = &attempt->bearer;
    }
    last->next = attempt->parts->headers;
    return 0;
}

/*
 * Signs the request and makes its headers. The nodes of the list of headers can be members of the
 * attempt, because libcurl only reads the list. Returns nonzero if a header cannot be made.
 */
static int attempt_sign(struct attempt *attempt)
{
    const struct delivery *delivery = attempt->delivery;
    const struct parts *parts = attempt->parts;
    const struct body *body = delivery->body;
    const struct sign_key *const *keys = (const struct sign_key *const *)parts->keys;
    bool previous = delivery->at_wall_ms < parts->previous_until;
    int64_t timestamp = delivery->at_wall_ms / 1000;
    bool hmac = !parts->no_hmac, pair = parts->pairs[0];
    char hex[SIGN_HEX], standard[SIGN_STANDARD] = "", ed25519[SIGN_ED25519] = "";

    if (hmac && (sign_body(keys[0], body->bytes, body->length, hex) ||
                 sign_standard(keys, keys[1] && previous ? 2 : 1, body->id, timestamp, body->bytes,
                               body->length, standard)))
        return -1;
    if (pair && sign_ed25519(parts->pairs, parts->pairs[1] && previous ? 2 : 1, body->id, timestamp,
                             body->bytes, body->length, ed25519))
        return -1;
    attempt->header_count = 0;
    /* The log omits these headers; DELIVERY_COLUMNS in api/api.h adds them to responses. */
    int failed = attempt_header(attempt, "Content-Type: application/json") |
                 attempt_header(attempt, "Expect:") |
                 attempt_header(attempt, "X-Webhook-Event: %s", body->event) |
                 attempt_header(attempt, "webhook-id: %s", body->id) |
                 (*body->trace ? attempt_header(attempt, "traceparent: %s", body->trace) : 0);

    attempt->known = attempt->header_count;
    failed |= (hmac ? attempt_header(attempt, "X-Webhook-Signature: %s", hex) : 0) |
              attempt_header(attempt, "X-Webhook-Attempt: %d", delivery->tries + 1) |
              (delivery->replay ? attempt_header(attempt, "webhook-replay: true") : 0) |
              (delivery->sequence
                   ? attempt_header(attempt, "webhook-sequence: %" PRId64, delivery->sequence)
                   : 0) |
              attempt_header(attempt, "webhook-timestamp: %" PRId64, timestamp) |
              attempt_header(attempt, "webhook-signature: %s%s%s", standard,
                             hmac && pair ? " " : "", ed25519);
    return failed | attempt_add_headers(attempt, parts->oauth ? oauth_header(parts->oauth) : NULL);
}

/* Releases what an attempt refers to, and puts it into sender->attempts for reuse. */
static void attempt_drop(struct attempt *attempt)
{
    struct http_request *http = &attempt->http;

    webhook_secret_free(attempt->bearer.data);
    attempt->bearer.data = NULL;
    if (attempt->receiver) {
        attempt->receiver->flying--;
        attempt->receiver->waiting -= attempt->waiting;
    }
    if (http->easy && http->ended && http->outcome == HTTP_ANSWERED)
        curl_easy_setopt(http->easy, CURLOPT_SHARE, NULL);
    else
        http_request_close(http);
    receiver_sessions_release(attempt->sessions);
    parts_release(attempt->parts);
    free(http->bytes);
    SLIST_INSERT_HEAD(&attempt->sender->attempts, attempt, next);
}

static void attempt_done(struct http_request *http);

/*
 * Prepares and signs the request; signing a large body takes a while. A retry uses a new
 * connection, because the old connection may be the reason why the previous attempt failed. Returns
 * NULL if the attempt cannot start.
 */
static struct attempt *attempt_new(struct sender *sender, struct delivery *delivery)
{
    struct attempt *attempt = SLIST_FIRST(&sender->attempts);
    struct parts *parts = delivery->subscription->parts;
    struct curl_blob *certificate = parts->certificate.data ? &parts->certificate : NULL;

    if (delivery_is_old(sender, delivery))
        return NULL;
    delivery->at_wall_ms = bb_wall_ms(sender->host);
    if (attempt)
        SLIST_REMOVE_HEAD(&sender->attempts, next);
    else if (!(attempt = calloc(1, sizeof(*attempt))))
        return NULL;
    CURL *easy = attempt->http.easy;

    attempt->http = (struct http_request){
        .method = "POST",
        .url = parts->url,
        .headers = attempt->headers,
        .body = delivery->body->bytes,
        .length = (int64_t)delivery->body->length,
        .timeout_ms = 1000 * sender->settings->timeout,
        .body_max = BODY_MAX,
        .bytes_max = KEPT,
        .may_send = attempt_may_send,
        .headed = attempt_headed,
        .arg = attempt,
        .easy = easy,
    };
    attempt->sender = sender;
    attempt->delivery = delivery;
    attempt->parts = parts;
    parts->holders++;
    attempt->version = delivery->subscription->version;
    attempt->unsent = false;
    attempt->receiver = receiver_take(sender, parts->url);
    attempt->waiting = attempt->receiver != NULL;
    attempt->sessions = attempt->receiver ? attempt->receiver->sessions : NULL;
    if (attempt->sessions && !attempt_sign(attempt) &&
        !http_request_prepare(sender->client, &attempt->http)) {
        easy = attempt->http.easy;
        if (!curl_easy_setopt(easy, CURLOPT_SHARE, attempt->sessions->share) &&
            !curl_easy_setopt(easy, CURLOPT_SSLCERT_BLOB, certificate) &&
            !curl_easy_setopt(easy, CURLOPT_SSLKEY_BLOB, certificate ? &parts->key : NULL) &&
            !curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, delivery->tries ? 1L : 0L) &&
            !curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 0L) &&
            !curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, attempt_open_socket) &&
            !curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, attempt) &&
            !curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, attempt_close_socket) &&
            !curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, attempt->receiver))
            return attempt;
    }
    attempt_drop(attempt);
    return NULL;
}

int attempts_init(struct sender *sender)
{
    const struct webhook_settings *settings = sender->settings;

    SLIST_INIT(&sender->attempts);
    sender->client =
        http_client_new(&(struct http_client_options){.rules = &sender->webhook->targets,
                                                      .authorities = "",
                                                      .idle_s = settings->connection_idle,
                                                      .connections = (size_t)settings->connections,
                                                      .http2 = settings->http2,
                                                      .goes_on = attempts_go_on,
                                                      .arg = sender});
    TAILQ_INIT(&sender->receivers_by_use);
    return sender->client ? 0 : -1;
}

/* Ends the attempts in flight without a result. */
void attempts_free(struct sender *sender)
{
    struct attempt *attempt;

    sender->ended_attempts = true;
    http_client_free(sender->client);
    while ((attempt = SLIST_FIRST(&sender->attempts))) {
        SLIST_REMOVE_HEAD(&sender->attempts, next);
        http_request_close(&attempt->http);
        free(attempt);
    }
    IDMAP_FOREACH (receiver, receiver, &sender->receivers)
        receiver_forget(sender, receiver);
}

/* ---- starting ------------------------------------------------------------------------------- */

/* Handles an attempt that could not start: the delivery waits, or is abandoned if it is too old. */
static void attempt_put_off(struct sender *sender, struct delivery *delivery)
{
    queue_finished(&sender->queue, &delivery->item, false, sender->now_ms);
    if (!delivery_is_old(sender, delivery)) {
        delivery_rest(sender, delivery, PUT_OFF_MS);
        return;
    }
    delivery->at_wall_ms = bb_wall_ms(sender->host);
    delivery->took_ms = delivery->status = 0;
    delivery->kind = "it waited too long";
    delivery->details = json_pack("[s, n, n]", "abandoned: it waited too long");
    delivery->verdict = RETRY_ABANDON;
    delivery->notes = false;
    record_add(sender, delivery);
}

/*
 * Handles an attempt that was not sent, or that this host cut off. The attempt does not count: the
 * delivery keeps its number of tries, and the flow keeps its class.
 */
static void attempt_take_back(struct sender *sender, struct delivery *delivery)
{
    enum subscription_state state = delivery->subscription->state;
    bool ours = delivery->test || sender->mine & sender_shard(delivery->webhook);

    delivery->tries--;
    queue_put_back(&sender->queue, &delivery->item);
    if (delivery->lease_lost || !ours || state == SUBSCRIPTION_GONE ||
        (state == SUBSCRIPTION_OFF && !delivery->test))
        delivery_unsettled(sender, delivery);
}

/*
 * Returns whether no attempt may start now. Hold the lock from before the call until the attempt
 * has started: then a change or pause that was reported earlier prevents the attempt, and a later
 * report waits until the attempt is in flight. Request threads wait for the lock, so nothing else
 * is done while it is held.
 */
static bool attempt_is_prevented(const struct sender *sender)
{
    return sender->paused || sender->changed.count || sender->changed_all;
}

/*
 * Called after the request for an access token. If this request failed (`error`), the attempt
 * fails. Otherwise sends the attempt's request within the rest of webhook.timeout, unless work was
 * paused or the webhook has changed. After the response to a PATCH no request uses old values.
 */
static void attempt_token_ready(struct oauth_waiter *waiter, const char *error)
{
    struct attempt *attempt = BB_CONTAINER_OF(waiter, struct attempt, waiter);
    struct sender *sender = attempt->sender;
    struct http_request *http = &attempt->http;

    sender->now_ms = bb_now_ms(sender->host);
    int64_t left = http->timeout_ms - (sender->now_ms - attempt->delivery->item.started_ms);

    http->timeout_ms = left > 1 ? left : 1;
    if (!error && (attempt_add_headers(attempt, attempt->parts->oauth->header) ||
                   curl_easy_setopt(http->easy, CURLOPT_TIMEOUT_MS, (long)http->timeout_ms)))
        error = "out of memory";
    if (error) {
        const struct http_request *asked = &attempt->parts->oauth->http;

        http->outcome = HTTP_UNREACHABLE;
        http->servers_fault = asked->outcome == HTTP_ANSWERED || asked->servers_fault;
        http->error = "there is no access token";
        snprintf(http->detail, sizeof(http->detail), "%s", error);
        attempt_done(http);
        return;
    }
    pthread_mutex_lock(&sender->lock);
    attempt->unsent = attempt_is_prevented(sender) ||
                      attempt->version != attempt->delivery->subscription->version;
    if (!attempt->unsent)
        http_client_start(sender->client, http);
    pthread_mutex_unlock(&sender->lock);
    if (attempt->unsent || http->ended)
        attempt_done(http);
    else
        http->done = attempt_done;
}

/* Starts the request, or first the request for an access token. Returns -1 if neither can start. */
static int attempt_begin(struct sender *sender, struct attempt *attempt)
{
    attempt->waiter.ready = attempt_token_ready;
    if (attempt->parts->oauth && !attempt->bearer.data)
        return oauth_wait(attempt->parts->oauth, sender->client, attempt->http.timeout_ms,
                          &attempt->waiter);
    http_client_start(sender->client, &attempt->http);
    attempt->http.done = attempt_done; /* only now: attempt_done() must not run under the lock */
    return attempt->http.ended ? -1 : 0;
}

/* Starts an attempt of the next delivery. Returns false if no delivery may be sent now. */
static bool attempt_start_next(struct sender *sender)
{
    struct queue_item *item = queue_take(&sender->queue, sender->now_ms);

    if (!item)
        return false;
    struct delivery *delivery = BB_CONTAINER_OF(item, struct delivery, item);

    if (!delivery->test && !rate_admits(sender, delivery->subscription, delivery->body->length)) {
        queue_put_back(&sender->queue, item);
        subscription_update(sender, delivery->subscription);
        return true;
    }
    struct attempt *attempt = attempt_new(sender, delivery);

    pthread_mutex_lock(&sender->lock);
    bool prevented = attempt_is_prevented(sender);
    bool failed = !prevented && (!attempt || attempt_begin(sender, attempt));

    pthread_mutex_unlock(&sender->lock);
    if (attempt && (prevented || failed))
        attempt_drop(attempt);
    if (prevented) {
        queue_put_back(&sender->queue, item);
    } else if (failed) {
        attempt_put_off(sender, delivery);
    } else {
        delivery->tries++;
        if (!delivery->test)
            rate_note(sender, delivery->subscription);
    }
    return !prevented;
}

void attempts_start(struct sender *sender)
{
    bool starts = !sender->stopping || (sender->successor && !sender->leaving);
    struct pairs changed;

    pthread_mutex_lock(&sender->lock);
    bool all = sender->changed_all;

    changed = sender->changed;
    sender->changed = (struct pairs){0};
    sender->changed_all = false;
    starts &= !sender->paused;
    pthread_mutex_unlock(&sender->lock);
    if (all || changed.count)
        subscriptions_changed(sender, &changed, all);
    pairs_free(&changed);
    while (starts && attempt_is_allowed(sender) && attempt_start_next(sender))
        ;
}

/* ---- responses ------------------------------------------------------------------------------ */

/*
 * Returns up to KEPT bytes of external text as JSON, with '?' for control characters except tab, CR
 * and LF. If the text is not UTF-8, all non-ASCII bytes are replaced, too. NULL: out of memory.
 */
static json_t *attempt_text(const char *text, size_t length)
{
    static const unsigned char most[] = {0xFF, '~'};
    char clean[KEPT];
    json_t *json = NULL;

    length = length < KEPT ? length : KEPT;
    for (size_t pass = 0; !json && pass < sizeof(most); pass++) {
        for (size_t i = 0; i < length; i++) {
            unsigned char byte = (unsigned char)text[i];
            bool space = byte == '\t' || byte == '\r' || byte == '\n';
            bool plain = (byte >= ' ' || space) && byte != 0x7F && byte <= most[pass];

            clean[i] = plain ? text[i] : '?';
        }
        for (size_t cut = 0; !json && cut < 4 && cut <= length; cut++) /* end of a cut character */
            json = json_stringn(clean, length - cut);
    }
    return json;
}

/*
 * Returns the error for the webhook's owner. Sets *kind to the error for busbar's log, which has no
 * details about the receiver.
 */
static const char *attempt_error(const struct http_request *http, const char **kind)
{
    if (http->outcome == HTTP_REFUSED)
        return *kind = "the address or port is not allowed";
    if (http->too_large)
        return *kind = "the response's headers are too large";
    if (http->sendings > 1)
        return *kind = "the connection was closed without a response";
    *kind = http->error;
    const char *error = *http->detail ? http->detail : http->error;
    /* Without "OpenSSL/3.0.19: ", because owners should not learn the exact version. */
    const char *reason = strncmp(error, "OpenSSL/", 8) ? NULL : strstr(error, ": ");

    return reason ? reason + 2 : error;
}

/* Returns the sent headers as lines for the log; masks tokens and the values of owners' headers. */
static json_t *attempt_sent(const struct attempt *attempt)
{
    const struct curl_slist *line = &attempt->headers[attempt->known];
    char lines[SENT_ROOM];
    size_t length = 0;

    for (size_t i = attempt->known; line && length < sizeof(lines); i++, line = line->next) {
        bool masked = i >= attempt->header_count;
        size_t shown = masked ? strcspn(line->data, ":") : strlen(line->data);
        int added = snprintf(lines + length, sizeof(lines) - length, "%.*s%s\n", (int)shown,
                             line->data, masked ? ": ****" : "");

        if (added < 0 || (size_t)added >= sizeof(lines) - length)
            break;
        length += (size_t)added;
    }
    return json_stringn(lines, length);
}

/* Evaluates an ended attempt. A status counts as a response even if the body exceeds BODY_MAX. */
static void attempt_judge(struct sender *sender, struct delivery *delivery,
                          const struct http_request *http)
{
    bool answered = http->outcome == HTTP_ANSWERED || (http->too_large && http->head_ended);
    const struct attempt *attempt = http->arg;
    const struct retry_delays *delays = &attempt->parts->retry;
    const char *error = answered ? NULL : attempt_error(http, &delivery->kind);
    struct curl_header *after, *wish;
    enum health_asked asked = HEALTH_NOT_ASKED;
    int64_t after_s = 0;

    delivery->status = answered ? http->status : 0;
    bool delivered = delivery->status / 100 == 2;

    if (answered && !curl_easy_header(http->easy, "Retry-After", 0, CURLH_HEADER, -1, &after))
        after_s = retry_time_after(after->value, bb_wall_ms(sender->host) / 1000);
    if (answered && !curl_easy_header(http->easy, "webhook-delivery", 0, CURLH_HEADER, -1, &wish) &&
        !strcasecmp(wish->value, "disable"))
        asked = HEALTH_REQUESTED;
    else if (delivery->status == 410)
        asked = HEALTH_GONE;
    delivery->took_ms = sender->now_ms - delivery->item.started_ms;
    delivery->retry.node.at_ms = sender->now_ms;
    if (!delays->count || delivery->test)
        delays = &sender->webhook->retry_delays;
    delivery->verdict = retry_time_next(delays, delivery->tries, delivery->status, after_s,
                                        arc4random(), &delivery->delay_ms);
    queue_finished(&sender->queue, &delivery->item, delivered, sender->now_ms);
    if (delivery->test)
        waiters_report(delivery->test, delivery->node.id, delivered, delivery->status,
                       delivery->took_ms, error);
    delivery->details = json_pack("[o?, o?, o?]", error ? attempt_text(error, strlen(error)) : NULL,
                                  http->received ? attempt_text(http->bytes, http->received) : NULL,
                                  attempt_sent(attempt));
    health_judge(sender, delivery, answered || http->servers_fault, asked);
    record_add(sender, delivery);
}

/*
 * Called when a request has ended. If the lease has expired and the request got no response, the
 * outcome is unknown. Then the attempt does not count, and the next owner of the shard repeats it.
 */
static void attempt_done(struct http_request *http)
{
    struct attempt *attempt = http->arg;
    struct sender *sender = attempt->sender;
    struct delivery *delivery = attempt->delivery;
    bool unknown = http->outcome != HTTP_ANSWERED && !attempts_go_on(sender);

    sender->now_ms = bb_now_ms(sender->host);
    if ((attempt->unsent || unknown) && !sender->ended_attempts) {
        attempt_take_back(sender, delivery);
    } else if (!sender->ended_attempts) {
        attempt_judge(sender, delivery, http);
        if (http->outcome == HTTP_ANSWERED && http->status == 401 && attempt->bearer.data)
            oauth_reject(attempt->parts->oauth, attempt->bearer.data);
    }
    attempt_drop(attempt);
}
