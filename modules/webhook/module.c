/*
 * The tables and the state of the webhook module. The tables are hand-formatted, because
 * clang-format would spread a row over six lines.
 */
#include "modules/common/csv.h"
#include "modules/common/slots.h"
#include "modules/common/tables.h"
#include "modules/webhook/api/api.h"

#include "modules/webhook/schema.h"

#include "modules/webhook/sender/sender.h"

/* ---- the state of one generation ---- */

enum {
    LONG_LISTS = 16,     /* lists of several pages in progress */
    LONG_LISTS_EACH = 4, /* lists of one account */
    POLLS = 1024,        /* waiting polls */
    POLLS_EACH = 64,     /* waiting polls of one account */
    TEST_SHARES = 16     /* an account may have 1/TEST_SHARES of the waiting tests */
};

static void webhook_close(struct bb_host *host, void *state)
{
    struct webhook *webhook = state;

    (void)host;
    sender_free(webhook->sender);
    target_rules_free(&webhook->targets);
    slots_free(webhook->long_answers);
    slots_free(webhook->tests);
    slots_free(webhook->polls);
    waiters_free(webhook->waiters);
}

static int webhook_open(struct bb_host *host, void **state)
{
    const struct webhook_settings *settings = bb_settings(host);
    struct webhook *webhook = bb_host_alloc(host, sizeof(*webhook));
    char why[256];

    if (!webhook)
        return bb_open_fail(host, "out of memory");
    webhook->host = host;
    webhook->settings = settings;
    /* The host has checked the delays and their number: see settings[] below. */
    for (size_t i = 0; i < json_array_size(settings->retry_delays) && i < RETRY_DELAYS_MAX; i++)
        webhook->retry_delays.delays_ms[webhook->retry_delays.count++] =
            (int64_t)(json_number_value(json_array_get(settings->retry_delays, i)) * 1000);
    if (target_rules_read(&webhook->targets, settings->allow_networks, settings->allow_ports,
                          settings->open_networks, why, sizeof(why)))
        return bb_open_fail(host, "%s", why);
    webhook->long_answers = slots_new(host, LONG_LISTS, LONG_LISTS_EACH, "long answers");
    webhook->tests = slots_new(host, settings->tests,
                               (settings->tests + TEST_SHARES - 1) / TEST_SHARES, "tests");
    webhook->polls = slots_new(host, POLLS, POLLS_EACH, "polls");
    webhook->waiters = waiters_new(host);
    webhook->sender = sender_new(webhook);
    if (!webhook->sender || !webhook->tests || !webhook->long_answers || !webhook->polls ||
        !webhook->waiters) {
        webhook_close(host, webhook);
        return bb_open_fail(host, "out of memory");
    }
    *state = webhook;
    return 0;
}

static void webhook_start(struct bb_host *host, void *state)
{
    const struct target_rules *targets = &((struct webhook *)state)->targets;

    if (targets->network_count + targets->open_count > 0)
        bb_host_log(host, BB_INFO,
                    "webhook.allow_networks and webhook.open_networks let webhooks reach %zu "
                    "network(s) that are closed by default",
                    targets->network_count + targets->open_count);
}

/* ---- the tables ---- */

// clang-format off

static const struct bb_field delay_item[] = {
    {.name = "item", .type = BB_NUMBER, .flags = BB_SECONDS, .min = 0, .max = 3600},
};

#define SETTINGS struct webhook_settings

static const struct bb_field settings[] = {
    {.name = "retry_delays", .type = BB_LIST, .max = RETRY_DELAYS_MAX, .fallback = "[1, 4]",
     .fields = BB_TABLE(delay_item), .bind = BB_BIND(struct webhook_settings, retry_delays),
     .help = "Seconds between a failed attempt and the next attempt. A delivery has one attempt "
             "more than the list has entries."},
    SETTING_INT(timeout, BB_SECONDS, 1, 30, "10",
        "Seconds in which an attempt must get its complete response."),
    SETTING_INT(max_age, BB_HOURS, 1, 720, "24",
        "Hours after which a waiting delivery is abandoned."),
    SETTING_INT(retention_days, BB_DAYS, 2, 3650, "30",
        "Days for which deliveries and their attempts are kept."),
    SETTING_INT(delivered_retention_days, BB_DAYS, 0, 3650, "0",
        "Days for which successful deliveries are kept, up to retention_days. 0: for retention_days."),
    TARGET_SETTINGS(struct webhook_settings, "webhooks"),
    SETTING_INT(slots, 0, 4, 1024, "256",
        "Maximum number of attempts younger than 100 ms on each host. At most 8 times as many are in progress."),
    SETTING_INT(slots_per_webhook, 0, 1, 1024, "64", "Maximum number of attempts in progress for a webhook."),
    SETTING_INT(connections, 0, 1, 65536, "2048",
        "If a host has more open connections than this, it closes idle ones. Connections in use are not limited."),
    SETTING_INT(connections_per_receiver, 0, 1, 1024, "64",
        "Maximum number of idle connections to a receiver (scheme, host and port)."),
    SETTING_INT(connection_idle, BB_SECONDS, 1, 3600, "60",
        "Seconds after which an idle connection is closed."),
    SETTING_BOOL(http2, "true", "Use HTTP/2 if a receiver offers it over TLS."),
    SETTING_INT(memory, 0, 1, 4096, "16",
        "Maximum size of deliveries in memory in MiB; other deliveries wait in the database."),
    SETTING_INT(queue_per_webhook, 0, 1, 1000000, "1024",
        "Maximum number of deliveries of a webhook in memory."),
    SETTING_INT(per_account, 0, 1, 1000000, "1000", "Maximum number of webhooks of an account."),
    SETTING_INT(tests, 0, 1, 4096, "128",
        "Maximum number of webhook tests in progress on each host. One account may use a sixteenth of it, rounded up."),
};

static const struct bb_field id_segment[] = {
    {.name = "id", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "The webhook."},
};
static const struct bb_field delivery_segments[] = {
    {.name = "id", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "The webhook."},
    {.name = "deliveryId", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "The delivery."},
};

static const struct bb_field list_query[] = {
    QUERY_LIMIT(1000, "Webhooks per page. Default: all."),
    QUERY_AFTER(.type = BB_INT, .min = 0, .max = INT64_MAX),
};
static const struct bb_field statistics_query[] = {
    QUERY_LIMIT(200, "Webhooks per page (default 200)."),
    QUERY_AFTER(.type = BB_INT, .min = 0, .max = INT64_MAX),
};
#define SEARCH                                                                                     \
    {.name = "status", .type = BB_CHOICE, .choices = webhook_delivery_states,                       \
     .help = "Only items in this state."},                                                         \
    {.name = "event", .type = BB_TEXT, .max = 128, .help = "Only deliveries of this event."},      \
    {.name = "eventId", .type = BB_UUID, .help = "Only deliveries with this `webhook-id`."},       \
    {.name = "code", .type = BB_INT, .min = 100, .max = 599,                                       \
     .help = "Only deliveries whose last response had this status."},                              \
    {.name = "error", .type = BB_TEXT, .max = 100,                                                 \
     .help = "Only deliveries whose last error contains this text, in any case."},                 \
    {.name = "since", .type = BB_TIME, .help = "Only deliveries created since this time."},        \
    {.name = "until", .type = BB_TIME, .help = "Only deliveries created before this time."}

static const struct bb_field export_query[] = {SEARCH};
static const struct bb_field deliveries_query[] = {
    SEARCH,
    QUERY_LIMIT(200, "Deliveries per page (default 50)."),
    QUERY_AFTER(.type = BB_INT, .min = 1, .max = INT64_MAX),
};

static const struct bb_field event_item[] = {
    {.name = "item", .type = BB_TEXT, .max = 128, .example = "message.new"},
};

#define SECRET_FIELD                                                                               \
    {.name = "secret", .type = BB_TEXT, .flags = BB_SECRET | BB_NULLABLE, .min = 1,                \
     .max = WEBHOOK_SECRET_MAX,                                                                    \
     .help = "Key that signs the deliveries. Default: 64 random hexadecimal characters."}

static const char *const signatures[] = {"hmac", "ed25519", "both", NULL};
static const char *const orderings[] = {"key", NULL};
static const char *const periods[] = {"second", "minute", NULL};
static const struct bb_field rate_limit[] = {
    {.name = "limit", .type = BB_INT, .flags = BB_REQUIRED, .min = 1, .max = 1000},
    {.name = "per", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = periods},
};

static const char *const authentications[] = {"basic", "bearer", "oauth2", "mtls", NULL};

static const struct bb_field authentication[] = {
    {.name = "type", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = authentications},
    {.name = "username", .type = BB_TEXT, .flags = BB_NULLABLE | BB_VERBATIM, .max = 256, .help = "basic"},
    {.name = "password", .type = BB_TEXT, .flags = BB_NULLABLE | BB_SECRET, .max = 1024, .help = "basic"},
    {.name = "token", .type = BB_TEXT, .flags = BB_NULLABLE | BB_SECRET, .max = 4096, .help = "bearer"},
    {.name = "tokenUrl", .type = BB_TEXT, .flags = BB_NULLABLE | BB_VERBATIM, .max = TARGET_URL_MAX,
     .help = "oauth2: the token endpoint."},
    {.name = "clientId", .type = BB_TEXT, .flags = BB_NULLABLE | BB_VERBATIM, .max = 512, .help = "oauth2"},
    {.name = "clientSecret", .type = BB_TEXT, .flags = BB_NULLABLE | BB_SECRET, .max = 1024,
     .help = "oauth2"},
    {.name = "scope", .type = BB_TEXT, .flags = BB_NULLABLE, .max = 1024, .help = "oauth2, optional"},
    {.name = "audience", .type = BB_TEXT, .flags = BB_NULLABLE, .max = 1024, .help = "oauth2, optional"},
    {.name = "certificate", .type = BB_TEXT, .flags = BB_NULLABLE | BB_VERBATIM, .max = 16384,
     .help = "mtls: the certificate in PEM, with the certificates of its chain."},
    {.name = "key", .type = BB_TEXT, .flags = BB_NULLABLE | BB_SECRET, .max = 8192,
     .help = "mtls: the certificate's private key in PEM, without a password."},
};
static const struct bb_field authentication_reply[] = {
    {.name = "type", .type = BB_CHOICE, .choices = authentications},
    {.name = "username", .type = BB_TEXT},
    {.name = "password", .type = BB_TEXT, .help = "Masked, like the other secrets."},
    {.name = "token", .type = BB_TEXT},
    {.name = "tokenUrl", .type = BB_TEXT},
    {.name = "clientId", .type = BB_TEXT},
    {.name = "clientSecret", .type = BB_TEXT},
    {.name = "scope", .type = BB_TEXT},
    {.name = "audience", .type = BB_TEXT},
    {.name = "certificate", .type = BB_TEXT},
    {.name = "key", .type = BB_TEXT},
    {.name = "expiresAt", .type = BB_TIME, .help = "When the certificate expires."},
};

static const struct bb_field after[] = {
    {.name = "after", .type = BB_TEXT, .flags = BB_REQUIRED, .max = 16},
};

/* Optional members. null clears them; each has a row in the table of options.c. */
#define OPTIONS                                                                                    \
    {.name = "name", .type = BB_TEXT, .flags = BB_CLEARS, .min = 1, .max = 100,                    \
     .help = "Name for people.", .example = "Production"},                                         \
    {.name = "description", .type = BB_TEXT, .flags = BB_CLEARS, .min = 1, .max = 1000,            \
     .help = "Notes for people, such as who operates the receiver."},                              \
    {.name = "filter", .type = BB_OBJECT, .flags = BB_CLEARS,                                      \
     .help = "Condition on the payload; events that do not match it are not delivered.",           \
     .example = "{\"deviceProjectName\":{\"$startsWith\":\"Rooftop\"}}"},                           \
    {.name = "rateLimit", .type = BB_OBJECT, .flags = BB_CLEARS, .fields = BB_TABLE(rate_limit),   \
     .help = "The number of attempts that may start in any second or minute."},                                 \
    {.name = "ordering", .type = BB_CHOICE, .flags = BB_CLEARS, .choices = orderings,              \
     .help = "key: send the events of a conversation or device one after the other."},             \
    {.name = "headers", .type = BB_OBJECT, .flags = BB_CLEARS,                                     \
     .help = "Further headers of each request, up to 20 and 8 KiB: names and values. Responses "   \
             "mask the values.",                                                                   \
     .example = "{\"X-Api-Key\":\"3f1c6f11\"}"},                                                   \
    {.name = "retryPolicy", .type = BB_ANY, .flags = BB_NULLABLE | BB_CLEARS,                      \
     .help = "When failed deliveries are sent again: default (webhook.retry_delays), standard "    \
             "(after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h), or an object with delays: 1 to " \
             "16 delays in seconds, each up to 24 h, together up to 7 days."},                     \
    {.name = "signature", .type = BB_CHOICE, .flags = BB_CLEARS, .choices = signatures,            \
     .help = "How requests are signed: with the secret (hmac, the default), with a private key "   \
             "whose public key receivers get (ed25519), or both."},                                \
    {.name = "disablePolicy", .type = BB_OBJECT, .flags = BB_NULLABLE | BB_CLEARS,                 \
     .fields = BB_TABLE(after),                                                                    \
     .help = "Disables the webhook when all attempts have failed for the duration `after`, "   \
             "from 1h to 30d, or when the receiver asks for it. Only faults of the receiver "      \
             "count. Default: never.",                                                             \
     .example = "{\"after\":\"5d\"}"},                                                             \
    {.name = "destination", .type = BB_TEXT, .flags = BB_CLEARS, .min = 1, .max = 64,              \
     .help = "System to which a module of the service publishes the events, such as nats; only "   \
             "with kind poll, and only an Admin may set it."},                                     \
    {.name = "authentication", .type = BB_OBJECT, .flags = BB_CLEARS,                              \
     .fields = BB_TABLE(authentication),                                                           \
     .help = "How requests authenticate to the receiver. Responses mask the secrets."}

static const char *const kinds[] = {"poll", NULL};
static const struct bb_field create_body[] = {
    {.name = "kind", .type = BB_CHOICE, .flags = BB_CLEARS, .choices = kinds,
     .help = "poll: a client gets the events from GET /api/chat/webhooks/{id}/events. Default: they "
             "are sent to url."},
    {.name = "url", .type = BB_TEXT, .flags = BB_VERBATIM, .min = 1, .max = TARGET_URL_MAX,
     .help = "Target of the deliveries, http or https; required without kind. Stored "
             "percent-encoded, as browsers do it.",
     .example = "https://platform.example.org/hook"},
    {.name = "events", .type = BB_LIST, .flags = BB_REQUIRED, .max = 256,
     .fields = BB_TABLE(event_item),
     .help = "Names from GET /api/chat/webhooks/events. [] or [\"*\"] subscribes to all events, "
             "future ones included."},
    SECRET_FIELD,
    OPTIONS,
};
static const struct bb_field change_body[] = {
    {.name = "url", .type = BB_TEXT, .flags = BB_VERBATIM, .min = 1, .max = TARGET_URL_MAX,
     .help = "The new target."},
    {.name = "events", .type = BB_LIST, .max = 256,
     .fields = BB_TABLE(event_item), .help = "The new list of events."},
    {.name = "active", .type = BB_BOOL,
     .help = "false pauses the webhook: nothing new is queued, and waiting deliveries are sent "
             "once it is true again."},
    OPTIONS,
};
#define CONSUMER                                                                                   \
    {.name = "consumer", .type = BB_TEXT, .flags = BB_NOT_BLANK, .max = 64,                        \
     .fallback = "default", .help = "Name of the consumer, which has its own offset."}
static const struct bb_field poll_query[] = {
    CONSUMER,
    QUERY_LIMIT(1000,
        "Number of events (default 100). A response has at most 256 KiB of payloads."),
    {.name = "wait", .type = BB_INT, .flags = BB_SECONDS, .min = 0, .max = 25,
     .help = "Seconds to wait for an event if there is none (default 0)."},
};
static const struct bb_field commit_body[] = {
    CONSUMER,
    {.name = "offset", .type = BB_INT, .flags = BB_REQUIRED, .min = 0, .max = INT64_MAX,
     .help = "The last event that was processed. 0: begin again with the oldest one.",
     .example = "17"},
};
static const struct bb_field consumer_segments[] = {
    {.name = "id", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = "The webhook."},
    {.name = "consumer", .type = BB_TEXT, .max = 64, .help = "Name of the consumer.",
     .example = "default"},
};
static const struct bb_field filter_body[] = {
    {.name = "filter", .type = BB_OBJECT, .flags = BB_REQUIRED, .help = "The filter to test.",
     .example = "{\"deviceProjectName\":{\"$startsWith\":\"Rooftop\"}}"},
};
static const struct bb_field rotate_body[] = {SECRET_FIELD};
static const struct bb_field test_body[] = {
    {.name = "event", .type = BB_TEXT, .flags = BB_NULLABLE, .max = 128, .fallback = WEBHOOK_PING,
     .help = "The event to send, with an example of its fields: ping, or a name from GET "
             "/api/chat/webhooks/events. The webhook need not subscribe to it.",
     .example = "message.new"},
};
static const struct bb_field recover_body[] = {
    {.name = "since", .type = BB_TIME, .flags = BB_REQUIRED,
     .help = "Deliveries abandoned since this time are sent again (ISO 8601)."},
};

static const struct bb_field replay_body[] = {
    {.name = "since", .type = BB_TIME, .flags = BB_REQUIRED,
     .help = "Deliveries created since this time are sent again (ISO 8601)."},
    {.name = "until", .type = BB_TIME,
     .help = "Only deliveries created before this time. Default: now."},
    {.name = "status", .type = BB_CHOICE, .choices = webhook_delivery_states + 1,
     .help = "Only deliveries with this status. Default: both."},
    {.name = "events", .type = BB_LIST, .max = 256, .fields = BB_TABLE(event_item),
     .help = "Only deliveries of these events. Default: all."},
    {.name = "dryRun", .type = BB_BOOL, .help = "Only count the deliveries."},
};
static const char *const healths[] = {"ok", "failing", "disabled", NULL};
static const char *const reasons[] = {"failing", "gone", "requested", NULL};

#define WEBHOOK_FIELDS                                                                             \
    {.name = "id", .type = BB_INT, .flags = BB_REQUIRED},                                          \
    {.name = "userId", .type = BB_INT, .flags = BB_REQUIRED, .help = "The owner.",                 \
     .example = "3"},                                                                              \
    {.name = "url", .type = BB_TEXT, .help = "Absent if the events are polled.",                   \
     .example = "https://platform.example.org/hook"},                                              \
    {.name = "kind", .type = BB_CHOICE, .choices = kinds, .help = "Absent: events are sent."},     \
    {.name = "destination", .type = BB_TEXT, .help = "Where a module publishes the events."},      \
    {.name = "events", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_TABLE(webhook_texts)},  \
    {.name = "secret", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "****9c41",               \
     .help = "Complete in the responses to creation and rotate-secret; otherwise **** and the last 4 characters."},   \
    {.name = "active", .type = BB_BOOL, .flags = BB_REQUIRED},                                     \
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},                                  \
    {.name = "name", .type = BB_TEXT, .help = "Absent if there is none.",                          \
     .example = "Production"},                                                                     \
    {.name = "description", .type = BB_TEXT},                                                      \
    {.name = "filter", .type = BB_OBJECT, .help = "Absent if there is none."},                     \
    {.name = "rateLimit", .type = BB_OBJECT, .fields = BB_TABLE(rate_limit)},                      \
    {.name = "ordering", .type = BB_CHOICE, .choices = orderings},                                 \
    {.name = "headers", .type = BB_OBJECT, .help = "Absent if there are none."},                   \
    {.name = "retryPolicy", .type = BB_ANY, .help = "As it was set."},                             \
    {.name = "signature", .type = BB_CHOICE, .choices = signatures, .help = "Absent: hmac."},      \
    {.name = "publicKey", .type = BB_TEXT,                                                         \
     .help = "Public key of Ed25519 signatures: whpk_ and base64 (Standard Webhooks)."},           \
    {.name = "disablePolicy", .type = BB_OBJECT, .help = "As it was set."},                        \
    {.name = "health", .type = BB_CHOICE, .flags = BB_VOLATILE, .choices = healths,                \
     .help = "Absent in the response to creation; disabled: by the policy."},                      \
    {.name = "failingSince", .type = BB_TIME, .flags = BB_VOLATILE,                                \
     .help = "The first of the failed attempts."},                                                 \
    {.name = "lastSuccessAt", .type = BB_TIME, .flags = BB_VOLATILE,                               \
     .help = "Stored every five minutes, and when the webhook begins to fail."},                   \
    {.name = "disabledReason", .type = BB_CHOICE, .flags = BB_VOLATILE, .choices = reasons,        \
     .help = "failing: for the duration of the policy; gone: status 410; requested: by the "       \
             "header webhook-delivery."},                                                          \
    {.name = "disabledAt", .type = BB_TIME, .flags = BB_VOLATILE},                                 \
    {.name = "authentication", .type = BB_OBJECT, .fields = BB_TABLE(authentication_reply),        \
     .help = "Absent if there is none."}

static const struct bb_field webhook_reply_fields[] = {WEBHOOK_FIELDS};
static const struct bb_field rotate_reply[] = {
    WEBHOOK_FIELDS,
    {.name = "previousSecretUntil", .type = BB_TIME, .flags = BB_REQUIRED,
     .help = "The previous secret also signs until this time."},
};

/* In a reply whose only field is named ".", that field is the whole body instead of a member. */
static const struct bb_field events_reply[] = {
    {.name = ".", .type = BB_LIST, .fields = BB_TABLE(webhook_texts)},
};
static const struct bb_field filtered[] = {
    {.name = "eventId", .type = BB_UUID, .flags = BB_REQUIRED, .help = "The header webhook-id."},
    {.name = "event", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "message.new"},
    {.name = "createdAt", .type = BB_TIME, .flags = BB_REQUIRED},
    {.name = "matches", .type = BB_BOOL, .flags = BB_REQUIRED},
};
static const struct bb_field filter_reply[] = {
    {.name = "matched", .type = BB_INT, .flags = BB_REQUIRED, .help = "Events that match."},
    {.name = "events", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(filtered),
     .help = "The latest 100 events of the owner's webhooks, newest first."},
};
static const struct bb_field jwk[] = {
    {.name = "kty", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "OKP"},
    {.name = "crv", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "Ed25519"},
    {.name = "use", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "sig"},
    {.name = "alg", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "EdDSA"},
    {.name = "kid", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "Thumbprint (RFC 7638).",
     .example = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"},
    {.name = "x", .type = BB_TEXT, .flags = BB_REQUIRED, .help = "The key in base64url.",
     .example = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
};
static const struct bb_field jwks_reply[] = {
    {.name = "keys", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(jwk),
     .help = "The current key, and for 24 hours after rotate-secret the previous one."},
};
static const struct bb_field poll_reply[] = {
    {.name = "events", .type = BB_LIST, .flags = BB_REQUIRED, .fields = BB_ITEMS(poll_event_fields),
     .help = "In the order of offsets, after the last commit."},
    {.name = "offset", .type = BB_INT, .flags = BB_REQUIRED, .example = "17",
     .help = "The offset to commit after the events were processed."},
};
static const struct bb_field recover_reply[] = {
    {.name = "success", .type = BB_BOOL, .flags = BB_REQUIRED},
    {.name = "queued", .type = BB_INT, .flags = BB_REQUIRED, .help = "Deliveries sent again."},
};
static const struct bb_field test_reply[] = {
    {.name = "success", .type = BB_BOOL, .flags = BB_REQUIRED},
    {.name = "status", .type = BB_INT, .flags = NULLABLE,
     .help = "Status of the response.", .example = "200"},
    {.name = "durationMs", .type = BB_INT, .flags = BB_REQUIRED, .example = "87"},
    {.name = "error", .type = BB_TEXT, .flags = NULLABLE, .example = "null"},
};

#define BASE "/api/chat/webhooks"
/* Deadline of routes that wait for an attempt or for events, or that read many deliveries. */
#define LONG_MS 60000

static const int poll_errors[] = {409, 410, 0};

#define ID .segments = BB_TABLE(id_segment)
#define HOOK(verb, place, run)                                                                     \
    .method = (verb), .path = BASE place, .roles = BB_ANY_ROLE, .handler = (run)

static const struct bb_route routes[] = {
    {HOOK("POST", "", webhook_create), .errors = conflict, .flags = BB_CREATES | BB_AUDITED,
     .body = BB_TABLE(create_body), .body_max = 65536, .success = 201,
     .reply = BB_TABLE(webhook_reply_fields),
     .help = "Create a webhook. The response is the only one that shows the secret in full."},
    {HOOK("GET", "", webhook_list), .query = BB_TABLE(list_query),
     .reply = BB_ARRAY_OF(webhook_reply_fields),
     .help = "List your webhooks. An Admin sees everybody's."},
    {HOOK("GET", "/events", webhook_events), .reply = BB_TABLE(events_reply),
     .help = "List the events that a webhook can subscribe to."},
    {HOOK("GET", "/statistics", webhook_statistics), .query = BB_TABLE(statistics_query),
     .reply = BB_ARRAY_OF(webhook_statistics_fields),
     .help = "Get delivery statistics of each webhook for the last 24 hours. Each covers its "
             "latest 1,000 deliveries."},
    {HOOK("GET", "/:id", webhook_get), .flags = BB_VERSIONED, ID, .reply = BB_TABLE(webhook_reply_fields),
     .help = "Get a webhook."},
    {HOOK("PATCH", "/:id", webhook_change), .flags = BB_AUDITED | BB_VERSIONED, ID, .body = BB_TABLE(change_body),
     .body_max = 65536, .reply = BB_TABLE(webhook_reply_fields),
     .help = "Change the url, events, state or optional members of a webhook."},
    {HOOK("DELETE", "/:id", webhook_delete), .flags = BB_NO_BODY | BB_AUDITED, ID,
     .reply = BB_TABLE(success_reply), .help = "Delete a webhook and its waiting deliveries."},
    {HOOK("POST", "/:id/test", webhook_test), .flags = BB_NO_BODY, ID, .deadline_ms = LONG_MS,
     .body = BB_TABLE(test_body), .body_max = 65536, .reply = BB_TABLE(test_reply),
     .help = "Send a test ping, or an example of an event, to a webhook. Waits up to 4 seconds and "
             "returns the result of the first attempt. Works for inactive webhooks, too."},
    {HOOK("POST", "/:id/filter/test", webhook_filter_test), ID, .body = BB_TABLE(filter_body),
     .body_max = 65536, .reply = BB_TABLE(filter_reply),
     .help = "Test a filter with the latest 100 events of the owner's webhooks."},
    {HOOK("POST", "/:id/rotate-secret", webhook_rotate), .flags = BB_NO_BODY | BB_AUDITED, ID,
     .body = BB_TABLE(rotate_body), .body_max = 65536, .reply = BB_TABLE(rotate_reply),
     .help = "Rotate the secret of a webhook, and its key for Ed25519 signatures. Deliveries are "
             "signed with the old ones as well for 24 hours."},
    {HOOK("GET", "/:id/statistics", webhook_hours), ID, .reply = BB_ARRAY_OF(webhook_hour_fields),
     .help = "Get the outcomes of a webhook's deliveries in each hour of the last 24, by the time "
             "of their event. Covers its latest 20,000 deliveries."},
    {HOOK("GET", "/:id/events", webhook_poll), .errors = poll_errors, ID,
     .query = BB_TABLE(poll_query), .deadline_ms = LONG_MS, .reply = BB_TABLE(poll_reply),
     .help = "Get the next events of a webhook of kind poll. 410: events were dropped."},
    {HOOK("POST", "/:id/commit", webhook_commit), .errors = conflict, ID,
     .body = BB_TABLE(commit_body), .body_max = 65536, .reply = BB_TABLE(success_reply),
     .help = "Commit the offset up to which a consumer has processed the events."},
    {HOOK("GET", "/:id/consumers", webhook_consumers), ID,
     .reply = BB_ARRAY_OF(poll_consumer_fields), .help = "List the consumers with their offsets."},
    {HOOK("DELETE", "/:id/consumers/:consumer", webhook_consumer_delete), .flags = BB_NO_BODY | BB_AUDITED,
     .segments = BB_TABLE(consumer_segments), .reply = BB_TABLE(success_reply),
     .help = "Delete a consumer and its offset."},
    {.method = "GET", .path = BASE "/:id/jwks", .roles = BB_ANYONE, .handler = webhook_jwks, ID,
     .reply = BB_TABLE(jwks_reply),
     .help = "Get the public keys of a webhook's Ed25519 signatures (JSON Web Key Set). Needs no "
             "token, because receivers call it."},
    {HOOK("GET", "/:id/deliveries", webhook_deliveries), ID, .query = BB_TABLE(deliveries_query),
     .reply = BB_ARRAY_OF(webhook_delivery_fields),
     .help = "List the deliveries of a webhook with their attempts, newest first."},
    {HOOK("GET", "/:id/deliveries/export.csv", webhook_export), ID, .query = BB_TABLE(export_query), .reply = CSV_REPLY(
        "id,event,eventId,status,createdAt,attempts,lastAttemptAt,lastStatus,"
        "lastDurationMs,lastError\r\n17,message.new,01a1fdfd-a419-7423-8a51-0d2f3f1c6f11,"
        "delivered,2026-04-01T12:00:00.000Z,1,2026-04-01T12:00:00.087Z,200,87,\r\n"),
     .reply_type = "text/csv", .help = "Download the deliveries of a webhook as CSV."},
    {HOOK("GET", "/:id/deliveries/:deliveryId", webhook_delivery),
     .segments = BB_TABLE(delivery_segments), .reply = BB_TABLE(webhook_delivery_body_fields),
     .help = "Get a delivery with its body."},
    {HOOK("POST", "/:id/deliveries/:deliveryId/resend", webhook_resend), .errors = conflict,
     .flags = BB_NO_BODY | BB_AUDITED, .segments = BB_TABLE(delivery_segments), .reply = BB_TABLE(success_reply),
     .help = "Resend a delivery, whatever its state."},
    {HOOK("POST", "/:id/recover", webhook_recover), .flags = BB_AUDITED, .errors = conflict, ID, .deadline_ms = LONG_MS,
     .body = BB_TABLE(recover_body), .body_max = 65536, .reply = BB_TABLE(recover_reply),
     .help = "Resend all abandoned deliveries since a time."},
    {HOOK("POST", "/:id/replay", webhook_replay), .errors = conflict, ID, .deadline_ms = LONG_MS,
     .body = BB_TABLE(replay_body), .body_max = 65536, .reply = BB_TABLE(webhook_replay_fields),
     .help = "Resend the deliveries of a period, after other deliveries."},
    {HOOK("GET", "/:id/replay", webhook_replay_get), ID, .reply = BB_TABLE(webhook_replay_fields),
     .help = "Get the progress of the latest replay."},
    {HOOK("DELETE", "/:id/replay", webhook_replay_cancel), .flags = BB_NO_BODY | BB_AUDITED, ID,
     .reply = BB_TABLE(webhook_replay_fields),
     .help = "Cancel the replay. Deliveries that are queued already are sent."},
};

static const struct bb_hook hooks[] = {
    {.event = "*", .kind = BB_WITHIN, .within = webhook_within},
};

static const struct bb_need needs[] = {{"accounts", 1}};
static const struct bb_need wants[] = {{BB_DESTINATION "*", 1}};
static const struct bb_service_descriptor services[] = {
    {.name = "event log", .version = 1, .interface = &webhook_event_log},
};

static const struct bb_field ping_payload[] = {
    {.name = "event", .type = BB_TEXT, .flags = BB_REQUIRED, .example = WEBHOOK_PING,
     .help = "Always ping."},
    {.name = "timestamp", .type = BB_TIME, .flags = BB_REQUIRED,
     .help = "When the test was called.", .example = "2026-04-01T12:00:00.000Z"},
};

#define ABOUT                                                                                      \
    {.name = "webhookId", .type = BB_INT, .flags = BB_REQUIRED, .example = "7"},                   \
    {.name = "userId", .type = BB_INT, .flags = BB_REQUIRED, .help = "The owner.",                 \
     .example = "3"},                                                                              \
    {.name = "url", .type = BB_TEXT, .flags = BB_REQUIRED,                                         \
     .example = "https://platform.example.org/hook"}
#define SINCE "2026-04-01T11:00:00.000Z"
#define LAST_SUCCESS                                                                               \
    {.name = "lastSuccessAt", .type = BB_TIME, .flags = NULLABLE,                                  \
     .help = "null: none is known.", .example = "2026-04-01T10:59:59.000Z"}

static const struct bb_field failing_payload[] = {
    ABOUT,
    {.name = "since", .type = BB_TIME, .flags = BB_REQUIRED,
     .help = "The first of the failed attempts.", .example = SINCE},
    LAST_SUCCESS,
};
static const struct bb_field disabled_payload[] = {
    ABOUT,
    {.name = "reason", .type = BB_CHOICE, .flags = BB_REQUIRED, .choices = reasons,
     .help = "As disabledReason of the webhook.", .example = "failing"},
    {.name = "since", .type = BB_TIME, .flags = NULLABLE,
     .help = "The first of the failed attempts; null: the webhook was not failing.",
     .example = SINCE},
    LAST_SUCCESS,
};
static const struct bb_field recovered_payload[] = {
    ABOUT,
    {.name = "since", .type = BB_TIME, .flags = BB_REQUIRED,
     .help = "The first of the attempts that had failed.", .example = SINCE},
};
static const struct bb_field exhausted_payload[] = {
    ABOUT,
    {.name = "count", .type = BB_INT, .flags = BB_REQUIRED,
     .help = "Deliveries that were abandoned since the previous event.", .example = "12"},
    {.name = "since", .type = BB_TIME, .flags = NULLABLE,
     .help = "The previous event; null: this is the first one.", .example = SINCE},
};
static const struct bb_field expiring_payload[] = {
    {.name = "webhookId", .type = BB_INT, .flags = BB_REQUIRED, .example = "7"},
    {.name = "url", .type = BB_TEXT, .flags = BB_REQUIRED,
     .example = "https://platform.example.org/hook"},
    {.name = "expiresAt", .type = BB_TIME, .flags = BB_REQUIRED,
     .example = "2026-04-01T12:00:00.000Z"},
};

/* A ping is never raised on the bus: webhook_test() sends it without a subscription. */
static const struct bb_event_descriptor events[] = {
    {.name = WEBHOOK_PING, .version = 1, .payload = BB_TABLE(ping_payload),
     .help = "A test of the webhook, sent only by `POST /api/chat/webhooks/{id}/test`."},
    {.name = "webhook.failing", .version = 1, .payload = BB_TABLE(failing_payload),
     .help = "The receiver of a webhook fails. Sent to the other webhooks of its owner."},
    {.name = "webhook.recovered", .version = 1, .payload = BB_TABLE(recovered_payload),
     .help = "An attempt of a failing webhook was successful. Sent to the other webhooks of its "
             "owner."},
    {.name = "webhook.disabled", .version = 1, .payload = BB_TABLE(disabled_payload),
     .help = "A webhook was disabled by its disablePolicy. Sent to the other webhooks of its "
             "owner."},
    {.name = "webhook.exhausted", .version = 1, .payload = BB_TABLE(exhausted_payload),
     .help = "All attempts of deliveries have failed; at most one event per webhook and hour. Sent "
             "to the other webhooks of its owner."},
    {.name = WEBHOOK_EXPIRING, .version = 1, .payload = BB_TABLE(expiring_payload),
     .help = "The client certificate of a webhook expires within 14 days. Sent once to its owner."},
};

static const struct bb_channel channels[] = {
    {.name = WEBHOOK_CHANNEL, .heard = webhook_changed},
    {.name = WEBHOOK_AUTH_CHANNEL, .heard = webhook_auth_heard},
    {.name = BB_PAUSE_CHANNEL, .heard = webhook_pause_heard},
};

static const struct bb_job jobs[] = {
    {.name = "webhook.partitions", .every_s = 3600, .flags = BB_ONCE, .run = webhook_partitions},
    {.name = "webhook.certificates", .every_s = 3600, .flags = BB_ONCE,
     .run = webhook_certificates},
    {.name = "webhook.sweep", .every_s = 60, .flags = BB_ONCE, .run = webhook_sweep},
    {.name = "webhook.owners", .every_s = 60, .flags = BB_ONCE, .run = webhook_refresh_owners},
};

static const struct bb_worker workers[] = {{.name = "sender", .run = sender_run, .nice = 10}};

static const char *const delivery_states[] = {"waiting", "in_flight", NULL};
static const char *const attempt_outcomes[] = {"delivered", "retried", "abandoned", NULL};

static const char *const webhook_state_names[] = {"active", "off", "not_admitted", NULL};

/* ---- the metrics of the sender ---- */

#define STATE_METRIC(name, read)                                                                   \
    static double name(void *state, size_t value)                                                  \
    {                                                                                              \
        struct sender_counters now;                                                                \
                                                                                                   \
        (void)value;                                                                               \
        sender_count(((const struct webhook *)state)->sender, &now);                               \
        return (double)(read);                                                                     \
    }

STATE_METRIC(webhook_now, value == 0 ? now.waiting : now.in_flight)
STATE_METRIC(webhook_attempts,
             value == 0 ? now.delivered : value == 1 ? now.retried : now.abandoned)
STATE_METRIC(webhook_lost_leases, now.lost_leases)
STATE_METRIC(webhook_lag, (double)now.lag_ms / 1000)
STATE_METRIC(webhook_states, now.webhooks[value])
STATE_METRIC(webhook_expanding, now.expanding)

static const struct bb_metric metrics[] = {
    {.name = "deliveries", .kind = BB_GAUGE, .label = "state", .values = delivery_states,
     .read = webhook_now, .help = "Deliveries in this host's memory."},
    {.name = "attempts_total", .kind = BB_COUNTER, .label = "outcome", .values = attempt_outcomes,
     .read = webhook_attempts, .help = "Attempts of this host, by the outcome of the delivery."},
    {.name = "lost_leases_total", .kind = BB_COUNTER, .read = webhook_lost_leases,
     .help = "How often this host renewed its lease too late, and gave up its deliveries."},
    {.name = "lag_seconds", .kind = BB_GAUGE, .read = webhook_lag,
     .help = "The longest time for which a delivery of this host is overdue, or an event does not have "
             "all its deliveries yet; updated every three seconds."},
    {.name = "events_to_expand", .kind = BB_GAUGE, .read = webhook_expanding,
     .help = "Events in the database that do not have all their deliveries yet; updated every six "
             "seconds."},
    {.name = "webhooks", .kind = BB_GAUGE, .label = "state", .values = webhook_state_names,
     .read = webhook_states,
     .help = "Webhooks in the database; not_admitted: the owner's account is not active."},
};

static const struct bb_field listen_options[] = {
    {.name = "webhook", .type = BB_INT, .flags = BB_REQUIRED, .min = 1, .max = INT64_MAX,
     .help = "Id of a webhook of kind poll."},
    {.name = "forwardTo", .type = BB_TEXT, .flags = BB_REQUIRED | BB_VERBATIM, .max = TARGET_URL_MAX,
     .help = "URL that gets the requests."},
    {.name = "server", .type = BB_TEXT, .flags = BB_VERBATIM, .max = TARGET_URL_MAX,
     .fallback = "http://127.0.0.1:8080", .help = "URL of the service."},
    {.name = "consumer", .type = BB_TEXT, .flags = BB_NOT_BLANK, .max = 64, .fallback = "listen",
     .help = "Name of the consumer, which has its own offset."},
    {.name = "token", .type = BB_TEXT, .flags = BB_SECRET | BB_REQUIRED, .max = 4096,
     .help = "Access token of the owner."},
    {.name = "webhookSecret", .type = BB_TEXT, .flags = BB_SECRET | BB_REQUIRED, .min = 1,
     .max = WEBHOOK_SECRET_MAX, .help = "Secret that signs the requests."},
};
static const struct bb_command commands[] = {
    {.name = "webhook listen", .options = BB_TABLE(listen_options), .run = webhook_command_listen,
     .flags = BB_COMMAND_LONG | BB_COMMAND_ALONE,
     .help = "Gets the events of a webhook of kind poll and sends them to a URL, signed like "
             "deliveries. Repeats failed requests, and commits each event after a success. Prints "
             "a line for each request. Needs a configuration that loads auth and webhook, but no "
             "database."},
    {.name = "webhook status", .run = webhook_command_status,
     .help = "Prints the numbers of queued, in-flight, delivered, retried and abandoned "
             "deliveries."},
    {.name = "webhook doctor", .run = webhook_command_doctor,
     .help = "Checks heartbeats, partitions and client certificates; part of `busbar doctor`."},
};

BB_EXPORT const struct bb_module busbar_module = {
    BB_MODULE_HEAD("webhook", "1.0.0"),
    .help = "Signed webhooks: subscriptions to events, and their deliveries.",
    .schema = webhook_schema,
    .settings = BB_TABLE(settings),
    .settings_size = sizeof(struct webhook_settings),
    .routes = BB_TABLE(routes),
    .events = BB_TABLE(events),
    .hooks = BB_TABLE(hooks),
    .services = BB_TABLE(services),
    .needs = BB_TABLE(needs),
    .wants = BB_TABLE(wants),
    .channels = BB_TABLE(channels),
    .jobs = BB_TABLE(jobs),
    .workers = BB_TABLE(workers),
    .commands = BB_TABLE(commands),
    .open = webhook_open,
    .start = webhook_start,
    .close = webhook_close,
    .metrics = BB_TABLE(metrics),
    .flags = BB_MODULE_SEALS,
};
