/*
 * Streams: the host's side of stream.h.
 *
 * A stream belongs to the HTTP transaction that opened it, from bb_stream_open() to
 * http_txn_completed(). The loop's thread reads the queue (libmicrohttpd asks, stream_read()); any
 * thread fills it. While there is nothing to write the connection is suspended; whoever sends then
 * posts a message to the loop, which resumes it. libmicrohttpd does not see a client leave while it
 * is suspended, so the loop watches the socket itself.
 */
#ifndef CORE_STREAM_H
#define CORE_STREAM_H

#include <busbar/stream.h>

#include "core/engine/engine.h"

struct http_txn;
struct MHD_Response;

/* Of one loop. */
struct streams {
    struct loop *loop;
    struct bb_stream *first; /* open ones */
    bool refusing;           /* the host is stopping */
    /* stream_check.c */
    struct timer timer;
    bool in_round;
    struct bb_stream *next;      /* the next to be looked at in this round */
    struct bb_stream *looked_at; /* a look at its token is under way; NULL: it has gone */
};

/* Prepares a loop that serves. 0 or -1. */
int streams_init(struct loop *loop);
void streams_free(struct loop *loop);

/* Ends all streams of a loop and refuses new ones: the host is stopping. Loop's thread. */
void streams_stop(struct loop *loop);

/* How many are open in the process. */
size_t streams_open(void);

/* response.c, http_txn.c: the response that reads from it; its media type; that it is over. Loop's
 * thread. */
struct MHD_Response *stream_response(struct bb_stream *stream);
const char *stream_type(const struct bb_stream *stream);
void stream_closed(struct bb_stream *stream);

/* stream_check.c: looks at the tokens of a loop's streams from time to time. */
void streams_check_start(struct loop *loop);
void streams_check_soon(struct loop *loop); /* there is one more */

/* stream.h, of topics */
int api_stream_join(struct bb_host *host, struct bb_stream *stream, const char *topic);
size_t api_stream_publish(struct bb_host *host, const char *topic, struct bb_chunk *chunk);

/* stream.h */
int api_stream_open(struct bb_request *rq, const struct bb_stream_options *options,
                    struct bb_stream **stream);
int api_stream_send(struct bb_stream *stream, struct bb_chunk *chunk);
size_t api_stream_waiting(struct bb_stream *stream);
void api_stream_end(struct bb_stream *stream);
void api_stream_cut(struct bb_stream *stream);

#endif
