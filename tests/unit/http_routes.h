/*
 * The routes of the host of http_stage.h, and what a test knows of their handlers.
 *
 *   GET  /named/:name   answers {"name":"…"}
 *   GET  /large         answers LARGE_ANSWER bytes
 *   GET  /park          waits for http_routes_go_on(), then answers "parked"; so does POST /park
 *   GET  /brief         the same, with a short deadline
 *   GET  /late          the same, but leaves its client to a successor before it waits
 *   POST /echo          answers the text of its body
 *   POST /pass          reads no body, answers "passed"
 *   POST /keep          may have a body of KEPT_BODY bytes
 *   GET  /fail          answers 503
 *   GET  /stream/:name  a stream that joins the topic of this name; /whole/:name is to be whole
 *   GET  /own           needs a token, see `token`; answers "own"
 *   GET  /watched       needs a token; a stream
 *   POST /own           needs a token; answers the text of its body
 */
#ifndef TESTS_UNIT_HTTP_ROUTES_H
#define TESTS_UNIT_HTTP_ROUTES_H

#include "core/generation/generation.h"
#include "core/http/stream.h"

struct client;

enum {
    LARGE_ANSWER = 8 * 1024 * 1024, /* more than the sockets of a connection take */
    KEPT_BODY = 1024 * 1024,
    STREAM_LIMIT = 4096,
    STREAMS = 8
};

#define HEARTBEAT ":still here\n\n"
#define GOODBYE "event: goodbye\n\n"

struct http_routes {
    unsigned begun;  /* handlers, ever */
    unsigned parked; /* of them, now */
    unsigned ended;  /* of those that parked, ever */
    unsigned failed; /* of those, because their time was over */
    struct bb_stream *streams[STREAMS];
    unsigned opened, closed; /* streams, ever */
    bool tells_end;          /* whoever closes, all in the topic "news" hear "closed" */
    bool late_ends;          /* GET /late ends as soon as it has left its client */
    int64_t heartbeat_ms;    /* of streams that are opened from now on; 0: none */
    /* The authenticator: */
    int token;        /* 0: tokens are good; else the status that it answers */
    int64_t account;  /* who it says it is */
    bool token_parks; /* it waits for http_routes_go_on() first */
    unsigned asked;
};
extern struct http_routes http_routes;

void http_routes_add(struct generation *generation);

/* Lets all parked handlers, and the authenticator, go on. */
void http_routes_go_on(void);

/* Waits until so many are parked; until so many have come to their end. */
void http_routes_expect_parked(unsigned count);
void http_routes_expect_ended(unsigned count);
/* Waits until so many streams were opened; closed. */
void http_routes_expect_opened(unsigned count);
void http_routes_expect_closed(unsigned count);

/* Sends text on a stream, publishes it in a topic. */
int http_routes_send(struct bb_stream *stream, const char *text);
size_t http_routes_publish(const char *topic, const char *text);

/* The stream that the client's request opens. */
struct bb_stream *http_routes_open(struct client *by, const char *request);
/* Has the answer come to its end, as far as its client can tell? */
bool http_routes_is_whole(const struct client *client);

/* A client from this address that does not read the large answer, which is being written. */
struct client *http_routes_begin_large(const char *address);

#endif
