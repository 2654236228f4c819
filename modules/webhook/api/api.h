/*
 * The routes and commands of webhook, and the handlers of its channels. Functions that take a
 * request run on its fiber. If they fail, or find an error in the request, they call bb_end().
 */
#ifndef WEBHOOK_API_H
#define WEBHOOK_API_H

#include "modules/webhook/publish/publish.h"

/*
 * The SQL condition that the caller may access the webhook h. Its parameters are the webhook in the
 * path, whether the caller is an Admin, and the caller's account.
 */
#define WEBHOOK_MINE "h.id = $1::bigint AND ($2::boolean OR h.account = $3::bigint)"
#define WEBHOOK_MINE_ARGS(rq)                                                                      \
    bb_i(bb_segment_int((rq), "id")), bb_b((rq)->principal->role == BB_ROLE_ADMIN),                \
        bb_i((rq)->principal->account)

/* A keyed statement (struct bb_keyed) that selects from the webhook h if WEBHOOK_MINE is true. */
// clang-format off
#define WEBHOOK_KEYED(selected)                                                                    \
    {                                                                                              \
        {selected " FROM webhook_hook h WHERE " WEBHOOK_MINE, BB_SQL_KEYED},                       \
        {selected ", k.i FROM " BB_KEYS_3("bigint", "boolean", "bigint")                           \
         " k(id, everything, account, i) CROSS JOIN LATERAL (SELECT * FROM webhook_hook h"         \
         " WHERE h.id = k.id AND (k.everything OR h.account = k.account) OFFSET 0) h", 0},         \
    }
// clang-format on

/* The API reference shows this as an example of an event's payload. */
#define WEBHOOK_EXAMPLE                                                                            \
    "{\"conversationId\":1,\"message\":{\"uuid\":\"01a1fdfd-a419-7423-8a51-0d2f3f1c6f11\","        \
    "\"username\":\"operator@example.com\",\"chatEntry\":\"The inverter is online again.\","       \
    "\"createdAt\":\"2026-04-01T12:00:00.000Z\"},\"deviceProjectName\":\"Rooftop 7\"}"

extern const char *const webhook_delivery_states[];

/* The fields of responses, in the order of the columns that the statements return. */
extern const struct bb_field webhook_delivery_fields[7], webhook_delivery_body_fields[8],
    webhook_statistics_fields[5], webhook_hour_fields[4], webhook_replay_fields[10],
    webhook_texts[1];

/* Ends the request with 404 unless the caller may use the webhook. Returns whether it is polled. */
bool webhook_find(struct bb_request *rq);

/*
 * Returns "****" and the last 4 characters of a secret in the request's memory; only "****" for a
 * secret of up to 4 characters.
 */
const char *webhook_masked(struct bb_request *rq, const char *secret);

/* Checks the URL in a field. Returns its encoded form (see target.h), or refuses the request. */
const char *webhook_check_url(struct bb_request *rq, const char *field, const char *url);

/* ---- options.c: the members of a webhook that its owner sets ---- */

/* The columns that options_take() may set, except SIGNING_COLUMNS. */
#define OPTION_COLUMNS                                                                             \
    "url, events, name, description, filter, rate_limit, ordering, headers, retry_policy,"         \
    " disable_policy, signature, filter_path, authentication, certificate_until,"                  \
    " certificate_warned, kind, destination"

/*
 * Return columns for jsonb_populate_record(), in the request's memory: options_new() returns the
 * id, options_take() also the columns that the body changes. options_take() may refuse the request.
 */
json_t *options_new(struct bb_request *rq, int64_t webhook);
json_t *options_take(struct bb_request *rq, int64_t webhook);

/* Seals a text and adds it to `columns` under the name of its part. NULL clears the column. */
void option_seal(struct bb_request *rq, const char *part, const char *text, json_t *columns);

/*
 * Opens a sealed JSON object, which lives as long as the request. If no key opens it, logs an error
 * and returns {}. option_headers_show() and authentication_show() mask the secrets in it.
 */
json_t *option_open(struct bb_request *rq, int64_t webhook, const char *part, const char *cell);
json_t *option_headers_show(struct bb_request *rq, int64_t webhook, const char *cell);

/*
 * The keys of Ed25519 signatures, null unless `signature` requires them. If the row h already has a
 * pair of keys, it keeps this pair and ignores the new pair in the record r.
 */
#define SIGNING_COLUMNS "signing_key, public_key, previous_signing_key, previous_public_key"
#define SIGNING_VALUES                                                                             \
    SIGNING_VALUE("coalesce(h.signing_key, r.signing_key)")                                        \
    ", " SIGNING_VALUE("coalesce(h.public_key, r.public_key)") ", " SIGNING_VALUE(                 \
        "h.previous_signing_key") ", " SIGNING_VALUE("h.previous_public_key")
#define SIGNING_VALUE(value) "CASE WHEN r.signature IN ('ed25519', 'both') THEN " value " END"

/* Adds a new pair of keys to `columns`. */
void signature_make_pair(struct bb_request *rq, json_t *columns);
int webhook_jwks(struct bb_request *rq); /* a route */

/* ---- filter.c ---- */

void filter_take(struct bb_request *rq, json_t *value, json_t *columns);
int webhook_filter_test(struct bb_request *rq);

/* ---- authentication.c ---- */

#define WEBHOOK_EXPIRING "webhook.certificate_expiring" /* an event */

void authentication_take(struct bb_request *rq, json_t *value, json_t *columns);
json_t *authentication_show(struct bb_request *rq, int64_t webhook, const char *cell);
void webhook_certificates(struct bb_request *rq); /* a job */

/* ---- poll.c: webhooks whose events are polled ---- */

extern const struct bb_sql poll_page;
extern const struct bb_field poll_event_fields[5], poll_consumer_fields[3];
/* Refuses a POST (`create`) or PATCH with members that the kind of the webhook does not allow. */
void poll_check_members(struct bb_request *rq, bool create);
void poll_check_sends(struct bb_request *rq); /* refuses requests for polled or unknown webhooks */
/* Handlers of routes. */
bb_handler webhook_poll, webhook_commit, webhook_consumers, webhook_consumer_delete;

/* ---- forward.c: destinations ---- */

extern const struct bb_event_log webhook_event_log;
void destination_take(struct bb_request *rq, json_t *value, json_t *columns);

/* ---- webhooks.c ---- */

/* Take the members `url` and `events` of a request: see struct option. */
void webhook_take_url(struct bb_request *rq, json_t *value, json_t *columns);
void webhook_take_events(struct bb_request *rq, json_t *value, json_t *columns);

/* Handlers of channels, called on any thread. */
void webhook_changed(void *state, const char *payload);
void webhook_pause_heard(void *state, const char *payload);

/* ---- deliveries.c, search.c ---- */

/*
 * The columns of webhook_deliveries AS d, in the order of webhook_delivery_fields. The log has the
 * headers of an attempt as lines. The headers that all attempts share are added here.
 */
// clang-format off
#define DELIVERY_COLUMNS                                                                           \
    "d.id, d.event, d.event_id, d.state, " BB_SQL_MS("d.created_at") " AS created,"                \
    " CASE WHEN d.state = 'queued' THEN " BB_SQL_MS("nullif(d.next_at, webhook_never())") " END,"  \
    " (SELECT coalesce(jsonb_agg(a - 'headers' || jsonb_build_object('requestHeaders', CASE"       \
    " WHEN a ->> 'headers' IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object('Content-Type',"  \
    " 'application/json', 'X-Webhook-Event', d.event, 'webhook-id', d.event_id, 'traceparent',"    \
    " d.traceparent)) || (SELECT coalesce(jsonb_object_agg(split_part(line, ': ', 1),"             \
    " substr(line, strpos(line, ': ') + 2)), '{}') FROM unnest(string_to_array(a ->> 'headers',"   \
    " chr(10))) AS line WHERE strpos(line, ': ') > 0) END) ORDER BY n), '[]')"                     \
    " FROM jsonb_array_elements(d.log) WITH ORDINALITY AS l(a, n))::text AS log"
// clang-format on

/* ---- routes and commands ---- */

bb_handler webhook_create, webhook_list, webhook_events, webhook_get, webhook_change,
    webhook_delete, webhook_test, webhook_deliveries, webhook_delivery, webhook_export,
    webhook_statistics, webhook_hours, webhook_resend, webhook_recover, webhook_replay,
    webhook_replay_get, webhook_replay_cancel, webhook_rotate, webhook_command_status,
    webhook_command_doctor;
int webhook_command_listen(struct bb_request *rq); /* listen.c */

#endif
