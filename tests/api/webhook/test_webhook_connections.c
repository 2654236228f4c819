/*
 * Connections to receivers: kept for each of many receivers, closed when unused for a while,
 * limited, with TLS sessions resumed. The receiver listens on all addresses of 127.0.0.0/8; a host
 * treats each address as a separate receiver.
 */
#include "exchange.h"
#include "http2.h"
#include "receive.h"

enum {
    MANY = 20, /* receivers */
    EACH = 100,
    KEPT_MOST = MANY * EACH / 4, /* connections for all deliveries */
};

static struct person *admin;
static struct talk talk;

static struct host *begin(struct host *host)
{
    admin = admin_of(host);
    talk = talk_start(host, admin, ADMIN_EMAIL, "other@shop.example", "Rooftop 7");
    return host;
}

static void say(const struct host *host, const char *entry)
{
    ck_status(talk_post(host, admin, &talk, ADMIN_EMAIL, text("%s, and in no log", entry)), 201);
}

/* ---- counts of a receiver ---- */

static int64_t tally_now(const struct receiver *receiver, const char *name)
{
    struct answer *answer = ck_status(http(&receiver->at, "GET", "/stats", NULL, NULL), 200);

    return json_integer_value(json_object_get(answer->json, name));
}

static void expect(const struct receiver *receiver, const char *name, int64_t least, int64_t most,
                   int ms)
{
    int64_t now = 0;

    WAIT_UNTIL_MSG((now = tally_now(receiver, name)) >= least && now <= most, ms,
                   "%s: %jd, not %jd to %jd", name, now, least, most);
}

static void expect_requests(const struct receiver *receiver, int64_t count)
{
    expect(receiver, "requests", count, count, 30000);
}

/* ---- hosts ---- */

static char *at_address(const char *scheme, int port, int number, const char *path)
{
    return text("%s://127.2.0.%d:%d%s", scheme, 1 + number, port, path);
}

static void hook_addresses(const struct host *host, const char *scheme, int port, int count,
                           int64_t *ids)
{
    for (int i = 0; i < count; i++) {
        struct webhook_made made =
            webhook_make(host, admin, at_address(scheme, port, i, "/fast/one"), "message.new");

        if (ids)
            ids[i] = made.id;
    }
}

TEST(connections_are_kept_for_each_of_many_receivers)
{
    struct host *host = begin(webhook_host("hookkept", "  timeout: 30\n"));
    const struct receiver *receiver = receiver_start("kept");
    PGconn *db = database_connect(the_postgres, "hookkept");
    int64_t ids[MANY];

    hook_addresses(host, "http", receiver->at.port, MANY, ids);
    sql_run(db, text("INSERT INTO webhook_delivery (webhook, event_id, event, body) SELECT h.id,"
                     " gen_random_uuid(), 'message.new', '{}' FROM generate_series(1, %d),"
                     " webhook_hook h",
                     EACH));
    expect_requests(receiver, (int64_t)MANY * EACH);
    expect(receiver, "connections", MANY, KEPT_MOST, 1000);
}

TEST(a_connection_idle_for_connection_idle_seconds_is_closed)
{
    struct host *host = begin(webhook_host("hookidle", "  connection_idle: 1\n"));
    const struct receiver *receiver = receiver_start("idle");

    hook_addresses(host, "http", receiver->at.port, 3, NULL);
    say(host, "opens three");
    expect(receiver, "requests", 3, 3, 10000);
    expect(receiver, "open", 0, 0, 6000);
    say(host, "opens three more");
    expect(receiver, "connections", 6, 6, 10000);
}

TEST(connections_per_receiver_limits_the_idle_connections_to_one_receiver)
{
    struct host *host = begin(webhook_host("hookfew", "  connections_per_receiver: 2\n"
                                                      "  connection_idle: 60\n"));
    const struct receiver *receiver = receiver_start("few");

    for (int i = 0; i < 8; i++)
        webhook_make(host, admin, receiver_url(receiver, "/slow/one"), "message.new");
    say(host, "to eight at once");
    expect(receiver, "requests", 8, 8, 10000);
    expect(receiver, "connections", 8, 8, 1000);
    expect(receiver, "open", 2, 2, 8000);
}

TEST(connections_limits_the_open_connections_to_all_receivers)
{
    struct host *host = begin(webhook_host("hookall", "  connections: 4\n  timeout: 30\n"));
    const struct receiver *receiver = receiver_start("all");

    hook_addresses(host, "http", receiver->at.port, MANY, NULL);
    say(host, "to each of them");
    expect(receiver, "requests", MANY, MANY, 10000);
    expect(receiver, "open", 1, 4, 5000);
}

/* ---- TLS ---- */

/* Returns a host on a system that trusts only this authority, or NULL if none can be made. */
static struct host *trusting(const char *name, const struct tls_pair *authority, const char *more)
{
    const char *const *wrapper = tls_trusting(name, authority);

    if (!wrapper)
        return NULL;
    struct host *host = host_start(&(struct host_spec){.name = name,
                                                       .modules = WEBHOOK_MODULES,
                                                       .wrapper = wrapper,
                                                       .more = text("%s%s", WEBHOOK_LOCAL, more)});

    webhook_ready(name, 1);
    return begin(host);
}

TEST(tls_sessions_are_resumed_with_each_of_many_receivers)
{
    struct tls_pair authority = tls_make("hooktls-ca", "DNS:ca.example", NULL);
    struct host *host = trusting("hooktls", &authority, "  connection_idle: 1\n  timeout: 30\n");

    if (!host)
        return;
    const struct receiver *receiver = receiver_start_tls("tls", &authority);

    hook_addresses(host, "https", receiver->tls_port, MANY, NULL);
    say(host, "to each of them");
    expect(receiver, "requests", MANY, INT64_MAX, 60000); /* more if the lease ended meanwhile */
    expect(receiver, "open", 0, 0, 60000);
    int64_t requests = tally_now(receiver, "requests"), resumed = tally_now(receiver, "resumed");
    int64_t complete = tally_now(receiver, "handshakes") - resumed;

    ck_assert_int_ge(complete, MANY);
    say(host, "to each of them again");
    expect(receiver, "requests", requests + MANY, INT64_MAX, 60000);
    ck_assert_int_ge(tally_now(receiver, "resumed"), resumed + MANY);
    ck_assert_int_eq(tally_now(receiver, "handshakes") - tally_now(receiver, "resumed"), complete);
}

/* Trust in one receiver does not extend to another, with a certificate of another authority. */
TEST(a_certificate_of_an_unknown_authority_is_refused_next_to_a_trusted_one)
{
    struct tls_pair authority = tls_make("hookvouch-ca", "DNS:ca.example", NULL);
    struct tls_pair theirs = tls_make("hookvouch-theirs", "DNS:theirs.example", NULL);
    struct host *host = trusting("hookvouch", &authority, "  timeout: 30\n  retry_delays: []\n");

    if (!host)
        return;
    const struct receiver *good = receiver_start_tls("good", &authority);
    const struct receiver *bad = receiver_start_tls("bad", &theirs);
    struct webhook_made made =
        webhook_make(host, admin, at_address("https", good->tls_port, 0, "/fast/a"), "message.new");
    struct webhook_made other =
        webhook_make(host, admin, at_address("https", bad->tls_port, 0, "/fast/a"), "message.new");

    for (int i = 0; i < 2; i++) {
        say(host, "to both");
        webhook_wait(host, admin, &made, "delivered", 5000);
        const json_t *attempt = attempt_of(webhook_wait(host, admin, &other, "abandoned", 5000), 0);

        ck_assert_ptr_nonnull(
            strcasestr(json_string_value(json_object_get(attempt, "error")), "certificate"));
    }
    ck_assert_int_eq(tally_now(bad, "requests"), 0);
}

/* ---- HTTP/2 ---- */

enum { STOP = -1 };

struct http2_place {
    struct host *host;
    struct http2 *server;
    struct webhook_made made;
};

/* Makes a host, a receiver that it trusts, and a webhook there; no host if none can be made. */
static struct http2_place http2_place(const char *name, const struct http2_answer *answers,
                                      const char *more)
{
    struct tls_pair authority = tls_make(text("%s-ca", name), "DNS:ca.example", NULL);
    struct tls_pair server = tls_make(text("%s-server", name), "IP:127.0.0.1", &authority);
    struct http2_place place = {.host = trusting(name, &authority, more)};

    if (!place.host)
        return place;
    place.server = http2_start(&server, answers);
    place.made = webhook_make(place.host, admin,
                              text("https://127.0.0.1:%d/hook", place.server->port), "message.new");
    return place;
}

/* The connection carries as many requests at a time as the webhook's budget permits, and no request
 * waits for another. */
TEST(deliveries_share_a_connection_if_the_receiver_supports_http2)
{
    static const struct http2_answer answers[] = {
        {200, NULL, 0}, {200, NULL, 300}, {0, NULL, STOP}};
    struct http2_place place = http2_place("hookhttp2", answers, "  timeout: 30\n");

    if (!place.host)
        return;
    say(place.host, "opens the connection");
    webhook_wait(place.host, admin, &place.made, "delivered", 8000);
    host_says(place.host, 0, "pause"); /* afterwards all are due at once */
    for (int i = 0; i < 12; i++)
        say(place.host, "shares it");
    host_says(place.host, 0, "resume");
    http2_wait(place.server, 13, 8000);
    webhook_wait(place.host, admin, &place.made, "delivered", 5000);
    ck_assert_uint_eq(http2_now(place.server, &place.server->connections), 1);
    ck_assert_uint_ge(http2_now(place.server, &place.server->most_open), 3);
}

TEST(http2_is_not_used_if_it_is_disabled)
{
    static const struct http2_answer answers[] = {{200, NULL, 0}, {0, NULL, STOP}};
    struct http2_place place =
        http2_place("hookhttp1", answers, "  http2: false\n  retry_delays: []\n");

    if (!place.host)
        return;
    say(place.host, "to one that speaks nothing else");
    webhook_wait(place.host, admin, &place.made, "abandoned", 8000);
    ck_assert_uint_eq(http2_now(place.server, &place.server->requests), 0);
}

TEST(retry_after_and_410_work_over_http2)
{
    static const struct http2_answer answers[] = {
        {429, "2", 0}, {410, NULL, 0}, {200, NULL, 0}, {0, NULL, STOP}};
    struct http2_place place =
        http2_place("hookgone", answers, "  timeout: 30\n  retry_delays: [0.1, 0.1]\n");

    if (!place.host)
        return;
    say(place.host, "gets 429, then 410");
    expect_json(webhook_wait(place.host, admin, &place.made, "abandoned", 12000),
                "{'attempts':[{'status':429},{'status':410}]}");
    ck_assert_int_ge(place.server->at_ms[1] - place.server->at_ms[0], 2000);
}

/* libcurl cancels the stream, or closes the connection if it has no other stream. */
TEST(an_http2_request_that_times_out_delays_no_other_and_is_retried_on_a_new_connection)
{
    static const struct http2_answer answers[] = {
        {200, NULL, 0}, {0, NULL, 0}, {200, NULL, 1500}, {200, NULL, 0}, {0, NULL, STOP}};
    struct http2_place place =
        http2_place("hooksilent", answers, "  timeout: 20\n  retry_delays: [0.1]\n");

    if (!place.host)
        return;
    say(place.host, "opens the connection");
    webhook_wait(place.host, admin, &place.made, "delivered", 8000);
    say(place.host, "is never answered");
    http2_wait(place.server, 2, 5000);
    say(place.host, "is answered late");
    http2_wait(place.server, 3, 5000);
    webhook_wait(place.host, admin, &place.made, "delivered", 5000);
    http2_wait(place.server, 4, 20000);
    ck_assert_uint_eq(http2_now(place.server, &place.server->connections), 2);
}

/* A receiver that stops responding on a connection is not sent another request on it. */
TEST(a_hung_http2_connection_is_closed_with_the_first_request_that_times_out)
{
    static const struct http2_answer answers[] = {
        {200, NULL, 0}, {HTTP2_STUCK, NULL, 0}, {200, NULL, 0}, {0, NULL, STOP}};
    struct http2_place place =
        http2_place("hookstuck", answers, "  timeout: 20\n  retry_delays: []\n");

    if (!place.host)
        return;
    say(place.host, "opens the connection");
    webhook_wait(place.host, admin, &place.made, "delivered", 8000);
    say(place.host, "is never answered");
    webhook_wait(place.host, admin, &place.made, "abandoned", 20000);
    say(place.host, "has a separate connection");
    webhook_wait(place.host, admin, &place.made, "delivered", 8000);
    ck_assert_uint_eq(http2_now(place.server, &place.server->connections), 2);
}

SUITE(webhook_connections, .timeout_s = 90)
