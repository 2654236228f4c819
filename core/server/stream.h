/*
 * Streams: the host's implementation of stream.h.
 *
 * A stream belongs to the HTTP transaction that opened it, from bb_stream_open() to
 * http_txn_completed(). The loop's thread reads the queue when libmicrohttpd calls stream_read();
 * any thread fills it. While the queue is empty the connection is suspended; a thread that sends
 * posts a message to the loop, which resumes the connection. libmicrohttpd does not notice that a
 * client closes a suspended connection, so the loop watches the socket itself.
 *
 * Streams outlive the check of their token, so the host repeats it, stream after stream, about
 * twice a second. A stream ends if its session was ended, its account may no longer act, or its
 * token has expired; also if its rights have changed, because the client then reconnects with the
 * new rights. In the steady state a check costs a lookup in the authenticator's cache. The same
 * rounds send heartbeats. While the authenticator is unavailable (503), streams continue.
 *
 * Topics are sets of streams of a module that get the same data.
 */
#ifndef CORE_STREAM_H
#define CORE_STREAM_H

#include <busbar/stream.h>

#include "core/module/engine.h"

struct MHD_Response;

/* The streams of one loop. */
struct streams {
    struct loop *loop;
    LIST_HEAD(, bb_stream) open;
    bool refusing;      /* the host is stopping */
    struct timer timer; /* the next part of a round of checks */
    bool in_round;
    struct bb_stream *next;    /* the next one to be checked in this round */
    struct bb_stream *checked; /* its token is being checked; NULL: it was closed meanwhile */
};

/* Prepares a loop that serves HTTP. Returns 0 or -1. */
int streams_init(struct loop *loop);
void streams_free(struct loop *loop);

/* Ends all streams of a loop and refuses new ones, because the host is stopping. Loop's thread. */
void streams_stop(struct loop *loop);

/* Number of open streams in the process. */
size_t streams_open(void);

/* The response that reads from the stream; its media type; its end. Loop's thread. */
struct MHD_Response *stream_response(struct bb_stream *stream);
const char *stream_type(const struct bb_stream *stream);
void stream_closed(struct bb_stream *stream);

API_FUNCTION(stream_open);
API_FUNCTION(stream_send);
API_FUNCTION(stream_waiting);
API_FUNCTION(stream_end);
API_FUNCTION(stream_cut);
API_FUNCTION(stream_join);
API_FUNCTION(stream_publish);
API_FUNCTION(stream_publish_to);

#endif
