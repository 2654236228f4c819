#include "modules/webhook/sender/oauth.h"

#include <jansson.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "modules/webhook/base/webhook.h"

enum {
    ANSWER_MAX = 65536,
    TOKEN_MAX = 8192,
    EXPIRES_S = 300, /* if the response has no valid expires_in */
    EXPIRES_MAX_S = 86400,
    MARGIN_S = 30 /* a token is not used in its last 30 s, or last tenth if that is shorter */
};

/* ---- credentials ---- */

struct oauth *oauth_new(const char *url, const char *basic, const char *body)
{
    struct oauth *oauth = calloc(1, sizeof(*oauth));

    if (!oauth)
        return NULL;
    STAILQ_INIT(&oauth->waiters);
    oauth->url = strdup(url);
    oauth->basic = strdup(basic);
    oauth->body = strdup(body);
    if (oauth->url && oauth->basic && oauth->body)
        return oauth;
    oauth_free(oauth);
    return NULL;
}

void oauth_free(struct oauth *oauth)
{
    if (!oauth)
        return;
    free(oauth->url);
    free(oauth->body);
    webhook_secret_free(oauth->basic);
    webhook_secret_free(oauth->header);
    free(oauth);
}

/* ---- the token ---- */

const char *oauth_header(const struct oauth *oauth)
{
    return oauth->header && http_clock_ms() < oauth->until_ms ? oauth->header : NULL;
}

void oauth_reject(struct oauth *oauth, const char *header)
{
    if (oauth->header && !strcmp(oauth->header, header))
        oauth->until_ms = 0;
}

void oauth_move(struct oauth *from, struct oauth *to)
{
    if (to->header || strcmp(from->url, to->url) != 0 || strcmp(from->body, to->body) != 0 ||
        strcmp(from->basic, to->basic) != 0)
        return;
    to->header = from->header;
    to->until_ms = from->until_ms;
    from->header = NULL;
}

/* Returns why the response has no access token that can be sent (RFC 6750); NULL: it has one. */
static const char *oauth_token_problem(const json_t *answer)
{
    const json_t *token = json_object_get(answer, "access_token");
    const char *text = json_string_value(token);
    const char *type = json_string_value(json_object_get(answer, "token_type"));

    if (!text || !*text || json_string_length(token) > TOKEN_MAX)
        return "the token endpoint sent no access_token";
    if (type && strcasecmp(type, "Bearer") != 0)
        return "the token endpoint sent a token that is not a bearer token";
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return "the token endpoint sent an invalid access_token";
    return NULL;
}

/* Reads the response. Returns NULL, or an error text for the webhook's owner (may use `buffer`). */
static const char *oauth_read(struct oauth *oauth, char *buffer, size_t size)
{
    const struct http_request *http = &oauth->http;
    double expires_s = EXPIRES_S;
    char *header = NULL;

    if (http->outcome == HTTP_REFUSED)
        return "the address or port of the token endpoint is not allowed";
    if (http->outcome != HTTP_ANSWERED) {
        snprintf(buffer, size, "token endpoint: %s", http->error);
        return buffer;
    }
    if (http->status != 200) {
        snprintf(buffer, size, "the token endpoint responded with status %d", http->status);
        return buffer;
    }
    /* as reals, because jansson refuses integers of more than 64 bits */
    json_t *answer = json_loadb(http->bytes ? http->bytes : "", http->received,
                                JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, NULL);
    const char *problem = oauth_token_problem(answer);

    if (json_is_number(json_object_get(answer, "expires_in")))
        expires_s = json_number_value(json_object_get(answer, "expires_in"));
    if (!problem && asprintf(&header, "Authorization: Bearer %s",
                             json_string_value(json_object_get(answer, "access_token"))) < 0)
        problem = "out of memory";
    json_decref(answer);
    if (problem)
        return problem;
    int64_t seconds = expires_s < 0               ? 0
                      : expires_s > EXPIRES_MAX_S ? EXPIRES_MAX_S
                                                  : (int64_t)expires_s;

    webhook_secret_free(oauth->header);
    oauth->header = header;
    oauth->until_ms = http_clock_ms() + 1000 * seconds -
                      (seconds > 10 * MARGIN_S ? 1000 * MARGIN_S : 100 * seconds);
    return NULL;
}

static void oauth_done(struct http_request *http)
{
    struct oauth *oauth = http->arg;
    char buffer[CURL_ERROR_SIZE];
    const char *error = oauth_read(oauth, buffer, sizeof(buffer));
    struct oauth_waiters waiters = STAILQ_HEAD_INITIALIZER(waiters);
    struct oauth_waiter *waiter;

    http_request_close(http);
    if (http->bytes)
        OPENSSL_cleanse(http->bytes, http->received);
    free(http->bytes);
    http->bytes = NULL;
    STAILQ_CONCAT(&waiters, &oauth->waiters);
    while ((waiter = STAILQ_FIRST(&waiters))) {
        STAILQ_REMOVE_HEAD(&waiters, next);
        waiter->ready(waiter, error);
    }
}

int oauth_wait(struct oauth *oauth, struct http_client *client, int64_t timeout_ms,
               struct oauth_waiter *waiter)
{
    const char *const lines[OAUTH_HEADERS] = {oauth->basic,
                                              "Content-Type: application/x-www-form-urlencoded",
                                              "Accept: application/json", "Expect:"};

    if (!STAILQ_EMPTY(&oauth->waiters)) {
        STAILQ_INSERT_TAIL(&oauth->waiters, waiter, next);
        return 0;
    }
    for (size_t i = 0; i < OAUTH_HEADERS; i++)
        oauth->headers[i] =
            (struct curl_slist){.data = (char *)(uintptr_t)lines[i],
                                .next = i + 1 < OAUTH_HEADERS ? &oauth->headers[i + 1] : NULL};
    oauth->http = (struct http_request){.method = "POST",
                                        .url = oauth->url,
                                        .headers = oauth->headers,
                                        .body = oauth->body,
                                        .length = (int64_t)strlen(oauth->body),
                                        .timeout_ms = timeout_ms,
                                        .body_max = ANSWER_MAX,
                                        .arg = oauth};
    http_client_start(client, &oauth->http);
    if (oauth->http.ended) {
        http_request_close(&oauth->http);
        free(oauth->http.bytes);
        return -1;
    }
    oauth->http.done = oauth_done; /* only now: a failed start must not call oauth_done() */
    STAILQ_INSERT_TAIL(&oauth->waiters, waiter, next);
    return 0;
}
