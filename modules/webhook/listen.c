/*
 * `busbar webhook listen`: gets the events of a polled webhook from a server, and sends them to a
 * URL that the server cannot reach, with the headers and signatures of a delivery. It needs neither
 * a database nor settings. Each round (a poll, and the requests for its events) has its own memory.
 * Calls of libcurl block the loop, which has no other work.
 */
#include <inttypes.h>
#include <string.h>

#include "modules/common/http_client.h"
#include "modules/webhook/api/api.h"
#include "modules/webhook/http/sign.h"

#define WAIT_TEXT "25" /* seconds of a long poll */
enum {
    TIMEOUT_MS = 40000,
    FORWARD_MS = 30000, /* timeout of a delivery; long, so that the receiver can be debugged */
    PAUSE_MS = 1000,    /* pause after the first failure; each further failure doubles the pause */
    PAUSE_MOST_MS = 16000,
    TURN_MS = 200,
    ANSWER_MAX = 8 << 20
};

struct listen {
    struct bb_host *host;
    struct http_client *client;
    struct sign_key *key;
    const char *target, *token;
    const char *consumer, *escaped; /* name of the consumer, also escaped for a query */
    const char *webhook;            /* URL of the webhook in the API of the server */
    bool failed;
};

/* Sends a request, and waits until it or the command ends. Returns the status; 0: no response. */
static int listen_send(const struct listen *listen, struct http_request *http)
{
    http_client_start(listen->client, http);
    while (!http->ended && !bb_superseded(listen->host))
        http_client_turn(listen->client, -1, TURN_MS);
    if (!http->ended)
        http_client_end(listen->client);
    http_request_close(http);
    return http->outcome == HTTP_ANSWERED ? http->status : 0;
}

/* Pauses after a failure, unless the command ends. */
static void listen_pause(const struct listen *listen, int64_t *pause_ms)
{
    int64_t until = bb_now_ms(listen->host) + *pause_ms;

    *pause_ms = *pause_ms < PAUSE_MOST_MS ? 2 * *pause_ms : PAUSE_MOST_MS;
    while (bb_now_ms(listen->host) < until && !bb_superseded(listen->host))
        http_client_turn(listen->client, -1, TURN_MS);
}

/* Returns a list of headers in the memory of the request; `lines` ends with NULL. */
static struct curl_slist *listen_headers(struct bb_request *rq, const char *const *lines)
{
    struct curl_slist *headers = NULL;
    size_t count = 0;

    while (lines[count])
        count++;
    while (count--) {
        struct curl_slist *node = bb_alloc(rq, sizeof(*node));

        *node = (struct curl_slist){.data = (char *)(uintptr_t)lines[count], .next = headers};
        headers = node;
    }
    return headers;
}

/*
 * Calls the API of the server, and repeats the call while the server is unavailable. Returns the
 * response in the request's memory. NULL: the server refused the call, or the command ends.
 */
static const json_t *listen_call(struct bb_request *rq, struct listen *listen, const char *method,
                                 const char *path, const char *body)
{
    const char *url = bb_format(rq, "%s/%s", listen->webhook, path);
    int64_t pause_ms = PAUSE_MS;
    const char *const lines[] = {bb_format(rq, "Authorization: Bearer %s", listen->token),
                                 "Content-Type: application/json", NULL};
    struct curl_slist *headers = listen_headers(rq, lines);

    while (!bb_superseded(listen->host)) {
        struct http_request http = {.method = method,
                                    .url = url,
                                    .headers = headers,
                                    .body = body,
                                    .length = body ? (int64_t)strlen(body) : 0,
                                    .timeout_ms = TIMEOUT_MS,
                                    .body_max = ANSWER_MAX};
        int status = listen_send(listen, &http);
        json_t *json = !http.bytes     ? NULL
                       : status == 200 ? bb_json_read(rq, http.bytes)
                                       : json_loadb(http.bytes, http.received, 0, NULL);

        free(http.bytes);
        if (status == 200 && json)
            return bb_json_hold(rq, json);
        const char *message = json_string_value(json_object_get(json, "message"));

        if (!bb_superseded(listen->host))
            bb_print(rq, "%s: %s\n", url, message ? message : http.error ? http.error : "failed");
        json_decref(json);
        bool lost = body && status == 400; /* a failover lost the event to be committed */

        listen->failed = status >= 400 && status < 500 && status != 429 && !lost;
        if (listen->failed || lost)
            break;
        listen_pause(listen, &pause_ms);
    }
    return NULL;
}

/* Sends an event until this succeeds, and commits its offset. Returns whether both succeeded. */
static bool listen_forward(struct bb_request *rq, struct listen *listen, const json_t *event)
{
    size_t length;
    const char *body = bb_json(rq, json_object_get(event, "payload"), &length);
    const char *commit =
        bb_format(rq, "{\"consumer\":%s,\"offset\":%" JSON_INTEGER_FORMAT "}",
                  bb_json(rq, bb_json_hold(rq, json_string(listen->consumer)), NULL),
                  json_integer_value(json_object_get(event, "offset")));
    const char *id = json_string_value(json_object_get(event, "eventId"));
    const char *name = json_string_value(json_object_get(event, "event"));
    const struct sign_key *keys[] = {listen->key};
    char hex[SIGN_HEX], standard[SIGN_STANDARD];
    int64_t pause_ms = PAUSE_MS;

    for (int attempt = 1; !bb_superseded(listen->host); attempt++) {
        int64_t now = bb_wall_ms(listen->host) / 1000;

        if (sign_body(listen->key, body, length, hex) ||
            sign_standard(keys, 1, id, now, body, length, standard))
            bb_end(rq, bb_no_memory(rq));
        const char *const lines[] = {"Content-Type: application/json",
                                     "Expect:",
                                     bb_format(rq, "X-Webhook-Event: %s", name),
                                     bb_format(rq, "X-Webhook-Signature: %s", hex),
                                     bb_format(rq, "X-Webhook-Attempt: %d", attempt),
                                     bb_format(rq, "webhook-id: %s", id),
                                     bb_format(rq, "webhook-timestamp: %" PRId64, now),
                                     bb_format(rq, "webhook-signature: %s", standard),
                                     NULL};
        struct http_request http = {.method = "POST",
                                    .url = listen->target,
                                    .headers = listen_headers(rq, lines),
                                    .body = body,
                                    .length = (int64_t)length,
                                    .timeout_ms = FORWARD_MS,
                                    .body_max = ANSWER_MAX};
        int64_t began_ms = bb_now_ms(listen->host);
        int status = listen_send(listen, &http);

        free(http.bytes);
        if (bb_superseded(listen->host) && !status)
            break;
        bb_print(rq, "%s %s %s: %s in %lld ms\n", bb_time_text(rq, bb_wall_ms(listen->host)), name,
                 id, status ? bb_format(rq, "%d", status) : http.error,
                 (long long)(bb_now_ms(listen->host) - began_ms));
        if ((status >= 200 && status < 300) || status == 410)
            return listen_call(rq, listen, "POST", "commit", commit) != NULL;
        listen_pause(listen, &pause_ms);
    }
    return false;
}

static int listen_round(struct bb_request *rq, void *arg)
{
    struct listen *listen = arg;
    const json_t *got =
        listen_call(rq, listen, "GET",
                    bb_format(rq, "events?consumer=%s&wait=" WAIT_TEXT, listen->escaped), NULL);
    const json_t *event;
    size_t i;

    json_array_foreach (json_object_get(got, "events"), i, event) {
        if (!listen_forward(rq, listen, event))
            break;
    }
    return 0;
}

int webhook_command_listen(struct bb_request *rq)
{
    const char *secret = bb_text(rq, "webhookSecret"), *server = bb_text(rq, "server");
    const char *consumer = bb_text(rq, "consumer");
    EVP_MAC *hmac = EVP_MAC_fetch(NULL, "HMAC", NULL);
    char *escaped = curl_easy_escape(NULL, consumer, 0);
    struct listen listen = {
        .host = rq->host,
        .client = http_client_new(
            &(struct http_client_options){.authorities = "", .idle_s = 60, .connections = 4}),
        .key = hmac ? sign_key_new(hmac, secret) : NULL,
        .target = bb_text(rq, "forwardTo"),
        .consumer = consumer,
        .escaped = escaped,
        .token = bb_text(rq, "token"),
        .webhook =
            bb_format(rq, "%s/api/chat/webhooks/%" PRId64, server, bb_given_int(rq, "webhook", 0)),
    };

    listen.failed = !listen.client || !listen.key || !escaped;
    if (!listen.failed)
        bb_print(rq, "sending the events of %s to %s\n", listen.webhook, listen.target);
    while (!listen.failed && !bb_superseded(rq->host))
        bb_scratch(rq, listen_round, &listen);
    curl_free(escaped);
    http_client_free(listen.client);
    sign_key_free(listen.key);
    EVP_MAC_free(hmac);
    return listen.failed;
}
