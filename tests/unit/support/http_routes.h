/*
 * The routes of the host of http_stage.h, and counters of what their handlers do.
 *
 *   GET  /named/:name   answers {"name":"…"}
 *   GET  /large         answers LARGE_ANSWER bytes
 *   GET  /park          waits for http_routes_go_on(), then answers "parked"; so does POST /park
 *   GET  /brief         like /park, with a short deadline
 *   GET  /late          like /park, but has the host answer its client before it waits
 *   POST /echo          answers the text of its body
 *   POST /pass          reads no body, answers "passed"
 *   POST /keep          may have a body of KEPT_BODY bytes
 *   GET  /stream/:name  a stream that joins the topic of this name; /whole/:name must be sent whole
 *   GET  /own           needs a token, see `token`; answers "own"
 *   GET  /watched       needs a token; a stream
 *   POST /own           needs a token; answers the text of its body
 *   POST /audited       the same, with BB_AUDITED; only an Admin may use POST /forbidden
 *   GET  /audited       like /late, with BB_AUDITED
 */
#ifndef TESTS_UNIT_HTTP_ROUTES_H
#define TESTS_UNIT_HTTP_ROUTES_H

#include "core/module/generation.h"
#include "core/server/stream.h"

struct client;

enum {
    LARGE_ANSWER = 8 * 1024 * 1024, /* more than the sockets of a connection can buffer */
    KEPT_BODY = 1024 * 1024,
    STREAM_LIMIT = 4096,
    STREAMS = 8
};

#define HEARTBEAT ":still here\n\n"
#define GOODBYE "event: goodbye\n\n"

struct http_routes {
    unsigned begun;  /* handlers started */
    unsigned parked; /* handlers that are parked now */
    unsigned ended;  /* parked handlers that have ended */
    unsigned failed; /* parked handlers that ended because of their deadline */
    struct bb_stream *streams[STREAMS];
    unsigned opened, closed; /* streams */
    bool tells_end;          /* when a stream closes, the topic "news" receives "closed" */
    bool late_ends;          /* GET /late ends as soon as it has left its client */
    int64_t heartbeat_ms;    /* for streams opened later; 0: no heartbeats */
    /* The authenticator: */
    int token;        /* 0: tokens are valid; otherwise the status of the response */
    int64_t account;  /* the account it returns */
    bool token_parks; /* the authenticator waits for http_routes_go_on() first */
    unsigned asked;
    /* The auditor: */
    int audit;                /* 0: it records; otherwise the status of its refusal */
    unsigned audits, audited; /* requests recorded before their handler, and outcomes */
    unsigned audited_begun;   /* handlers started when the last request was recorded */
    int audited_status;       /* the last outcome */
};
extern struct http_routes http_routes;

void http_routes_add(struct generation *generation);

/* Resumes all parked handlers and the authenticator. */
void http_routes_go_on(void);

/* Waits until a number of http_routes has this value. */
void http_routes_expect(const unsigned *number, unsigned wanted);

/* Send text on a stream; publish it to a topic. */
int http_routes_send(struct bb_stream *stream, const char *text);
size_t http_routes_publish(const char *topic, const char *text);

/* Returns the stream that the client's request opens. */
struct bb_stream *http_routes_open(struct client *by, const char *request);
/* Returns whether the client has received the end of the response. */
bool http_routes_is_whole(const struct client *client);

/* Returns a client, connected from this address, that does not read the large response; the
 * response is being written. */
struct client *http_routes_begin_large(const char *address);

#endif
