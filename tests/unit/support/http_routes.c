#include "http_routes.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/fiber.h"
#include "core/module/reply.h"
#include "core/server/http_txn.h"
#include "core/server/stream.h"
#include "fixture.h"
#include "http_client.h"

enum { BRIEF_MS = 20, ACCOUNT = 7 };

/* On the stack of a fiber that waits. */
struct parked {
    struct parked *next, **at;
    struct core_request *rq;
    bool goes_on;
};

struct http_routes http_routes;
static struct parked *parked;
static struct host_handle owner;

/* ---- handlers that wait ---------------------------------------------------------------------- */

static void enter(struct parked *here)
{
    here->at = &parked;
    here->next = parked;
    if (here->next)
        here->next->at = &here->next;
    parked = here;
    http_routes.parked++;
}

static void leave(struct parked *here)
{
    *here->at = here->next;
    if (here->next)
        here->next->at = here->at;
    http_routes.parked--;
    http_routes.ended++;
}

static int park(struct bb_request *pub)
{
    struct parked here = {.rq = request_of(pub)};

    http_routes.begun++;
    enter(&here);
    int failed = request_wait(here.rq, &here.goes_on);

    leave(&here);
    http_routes.failed += failed != 0;
    return failed ? reply_failed(here.rq) : reply_json(here.rq, 200, json_string("parked"), false);
}

/* Leaves the client like core/module/pool.c when a thread still works at the deadline. */
static int be_late(struct bb_request *pub)
{
    struct parked here = {.rq = request_of(pub)};
    bool never = false;

    http_routes.begun++;
    request_wait_in_time(here.rq, &never);
    http_routes.failed += here.rq->answer_timeout(here.rq);
    enter(&here);
    here.goes_on = http_routes.late_ends;
    while (!here.goes_on)
        fiber_park();
    leave(&here);
    return reply_json(here.rq, 200, json_string("late"), false);
}

void http_routes_go_on(void)
{
    for (struct parked *at = parked; at; at = at->next) {
        at->goes_on = true;
        request_wake(at->rq);
    }
}

/* ---- handlers that answer -------------------------------------------------------------------- */

static int answer_named(struct bb_request *pub)
{
    http_routes.begun++;
    return reply_json(request_of(pub), 200,
                      json_pack("{s:s}", "name", http_txn_of(pub)->segments[0]), false);
}

static int answer_large(struct bb_request *pub)
{
    char *bytes = malloc(LARGE_ANSWER);

    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 'L', LARGE_ANSWER);
    http_routes.begun++;
    return reply_bytes(request_of(pub), 200, bytes, LARGE_ANSWER);
}

static int echo(struct bb_request *pub)
{
    http_routes.begun++;
    return reply_json(request_of(pub), 200,
                      json_incref(json_object_get(request_of(pub)->body, "text")), false);
}

static int pass(struct bb_request *pub)
{
    http_routes.begun++;
    return reply_json(request_of(pub), 200, json_string("passed"), false);
}

static int answer_own(struct bb_request *pub)
{
    http_routes.begun++;
    return reply_json(request_of(pub), 200, json_string("own"), false);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void closed(struct bb_stream *stream, void *arg)
{
    (void)arg;
    http_routes.closed++;
    for (size_t i = 0; i < STREAMS; i++) {
        if (http_routes.streams[i] == stream)
            http_routes.streams[i] = NULL;
    }
    if (http_routes.tells_end)
        http_routes_publish("news", "closed\n");
}

static int open_stream(struct bb_request *pub, bool whole)
{
    struct bb_stream_options options = {.size = sizeof options,
                                        .type = "text/event-stream",
                                        .limit = STREAM_LIMIT,
                                        .goodbye = GOODBYE,
                                        .closed = closed,
                                        .whole = whole,
                                        .heartbeat = HEARTBEAT,
                                        .heartbeat_ms = http_routes.heartbeat_ms};
    struct bb_stream *stream = NULL;
    const char *topic = http_txn_of(pub)->segments[0];

    http_routes.begun++;
    int status = api_stream_open(pub, &options, &stream);

    if (!stream)
        return status;
    ck_assert_uint_lt(http_routes.opened, STREAMS);
    http_routes.streams[http_routes.opened++] = stream;
    if (topic)
        ck_assert_int_eq(api_stream_join(&owner.host, stream, topic), 0);
    return status;
}

static int stream(struct bb_request *pub)
{
    return open_stream(pub, false);
}

static int stream_whole(struct bb_request *pub)
{
    return open_stream(pub, true);
}

static struct bb_chunk *chunk_of(const char *text)
{
    struct bb_chunk *chunk = api_chunk_new(strlen(text));

    ck_assert_ptr_nonnull(chunk);
    memcpy(chunk->bytes, text, chunk->length);
    return chunk;
}

int http_routes_send(struct bb_stream *to, const char *text)
{
    struct bb_chunk *chunk = chunk_of(text);
    int status = api_stream_send(to, chunk);

    api_chunk_release(chunk);
    return status;
}

size_t http_routes_publish(const char *topic, const char *text)
{
    struct bb_chunk *chunk = chunk_of(text);
    size_t count = api_stream_publish(&owner.host, topic, chunk);

    api_chunk_release(chunk);
    return count;
}

/* ---- the authenticator ----------------------------------------------------------------------- */

static int authenticate(void *state, struct bb_request *pub, const char *token,
                        struct bb_principal *who)
{
    struct parked here = {.rq = request_of(pub)};

    (void)state;
    (void)token;
    http_routes.asked++;
    if (http_routes.token_parks) {
        enter(&here);
        int failed = request_wait(here.rq, &here.goes_on);

        leave(&here);
        if (failed)
            return reply_failed(here.rq);
    }
    if (http_routes.token)
        return reply_error(here.rq, http_routes.token, "The token is not good");
    *who = (struct bb_principal){.size = sizeof *who,
                                 .account = http_routes.account,
                                 .email = "u@example.com",
                                 .role = BB_ROLE_USER};
    return 0;
}

/* ---- the auditor ----------------------------------------------------------------------------- */

static int audit_before(void *state, struct bb_request *pub, const struct bb_audited *audited,
                        void **record)
{
    (void)state;
    ck_assert_int_eq(audited->route->flags & BB_AUDITED, BB_AUDITED);
    ck_assert_str_eq(audited->path, audited->route->path);
    if (http_routes.audit)
        return reply_error(request_of(pub), http_routes.audit, "The log cannot be written");
    http_routes.audits++;
    http_routes.audited_begun = http_routes.begun;
    *record = &http_routes;
    return 0;
}

static void audit_after(void *state, void *record, int status)
{
    (void)state;
    ck_assert_ptr_eq(record, &http_routes);
    http_routes.audited++;
    http_routes.audited_status = status;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct bb_field name_row[] = {{.name = "name", .type = BB_TEXT, .max = 64}};
static const struct bb_field text_row[] = {
    {.name = "text", .type = BB_TEXT, .flags = BB_REQUIRED, .max = KEPT_BODY}};

#define ROUTE(verb, where, does, ...)                                                              \
    {                                                                                              \
        .method = (verb), .path = (where), .handler = (does), .roles = BB_ANYONE, __VA_ARGS__      \
    }

static const struct bb_route routes[] = {
    ROUTE("GET", "/named/:name", answer_named, .segments = BB_TABLE(name_row)),
    ROUTE("GET", "/large", answer_large, .flags = 0),
    ROUTE("GET", "/park", park, .flags = 0),
    ROUTE("POST", "/park", park, .flags = 0),
    ROUTE("GET", "/brief", park, .deadline_ms = BRIEF_MS),
    ROUTE("GET", "/late", be_late, .deadline_ms = BRIEF_MS),
    ROUTE("POST", "/echo", echo, .body = BB_TABLE(text_row)),
    ROUTE("POST", "/keep", echo, .body = BB_TABLE(text_row), .body_max = KEPT_BODY),
    ROUTE("POST", "/pass", pass, .flags = 0),
    ROUTE("GET", "/stream/:name", stream, .segments = BB_TABLE(name_row)),
    ROUTE("GET", "/whole/:name", stream_whole, .segments = BB_TABLE(name_row)),
    {.method = "GET", .path = "/own", .handler = answer_own, .roles = BB_ANY_ROLE},
    {.method = "GET", .path = "/watched", .handler = stream, .roles = BB_ANY_ROLE},
    {.method = "POST",
     .path = "/own",
     .handler = echo,
     .roles = BB_ANY_ROLE,
     .body = BB_TABLE(text_row)},
    ROUTE("GET", "/audited", be_late, .deadline_ms = BRIEF_MS, .flags = BB_AUDITED),
    {.method = "POST",
     .path = "/audited",
     .handler = echo,
     .roles = BB_ANY_ROLE,
     .flags = BB_AUDITED,
     .body = BB_TABLE(text_row)},
    {.method = "POST",
     .path = "/forbidden",
     .handler = echo,
     .roles = BB_ROLE_ADMIN,
     .flags = BB_AUDITED,
     .body = BB_TABLE(text_row)},
};

void http_routes_add(struct generation *generation)
{
    static const struct bb_authenticator authenticator = {.size = sizeof authenticator,
                                                          .authenticate = authenticate};
    static const struct bb_auditor auditor = {
        .size = sizeof auditor, .before = audit_before, .after = audit_after};
    char why[160];

    http_routes = (struct http_routes){.account = ACCOUNT};
    owner = (struct host_handle){.generation = generation};
    generation->authenticator = &authenticator;
    generation->authenticator_host = &owner;
    generation->auditor = &auditor;
    generation->auditor_host = &owner;
    generation->router = router_new(arena);
    ck_assert_ptr_nonnull(generation->router);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        ck_assert_msg(!router_add(generation->router, &routes[i], &owner, why, sizeof why), "%s",
                      why);
}

/* ---- conditions that the test waits for ------------------------------------------------------ */

struct count {
    const unsigned *is;
    unsigned wanted;
};

static bool is_counted(const void *of)
{
    const struct count *count = of;

    return *count->is == count->wanted;
}

void http_routes_expect(const unsigned *number, unsigned wanted)
{
    http_stage_until(is_counted, &(struct count){.is = number, .wanted = wanted});
}

/* ---- requests of clients --------------------------------------------------------------------- */

struct bb_stream *http_routes_open(struct client *by, const char *request)
{
    unsigned opened = http_routes.opened;

    client_say(by, request);
    http_routes_expect(&http_routes.opened, opened + 1);
    return http_routes.streams[opened];
}

/* A complete response ends with a chunk of length 0, or the host closes the connection after it. */
bool http_routes_is_whole(const struct client *client)
{
    const char *heard = client_heard(client);
    bool chunked = strstr(heard, "Transfer-Encoding: chunked") != NULL;

    if (!client->ended || client->reset)
        return false;
    return !chunked || !strcmp(heard + strlen(heard) - strlen("\r\n0\r\n\r\n"), "\r\n0\r\n\r\n");
}

struct client *http_routes_begin_large(const char *address)
{
    struct client *deaf = client_deaf(address);

    client_say(deaf, GET("/large"));
    client_expect_stage(deaf, STAGE_WRITE);
    return deaf;
}
