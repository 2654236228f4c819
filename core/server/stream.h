/*
 * Implements the streams of <busbar/stream.h>.
 *
 * A stream belongs to the HTTP transaction that opened it, from bb_stream_open() to
 * http_txn_completed(). Any thread adds to the queue; the loop's thread reads it when libmicrohttpd
 * calls stream_read(). While the queue is empty, the connection is suspended; a thread that adds
 * data posts a message to the loop, which resumes the connection. libmicrohttpd does not notice
 * that a client closes a suspended connection, so the loop watches the socket itself.
 *
 * A stream can outlive its session, so the host repeats the check of each stream's token about
 * twice a second. It ends a stream if the session has ended, the account may no longer act, or the
 * token has expired; also if the account's rights have changed, so that the client reconnects with
 * the new rights. At the same times the host sends heartbeats. While the authenticator is
 * unavailable (503), streams continue.
 *
 * Topics are sets of streams of a module that get the same data.
 */
#ifndef CORE_STREAM_H
#define CORE_STREAM_H

#include <busbar/stream.h>

#include "core/module/engine.h"

struct MHD_Response;

/* Checks the next streams of a loop; called by the timer of struct streams. */
void streams_round(struct timer *timer);

/* Called on the loop's thread when the host stops: ends the loop's streams, refuses new ones. */
void streams_stop(struct loop *loop);

/* Returns the number of open streams in the process. */
size_t streams_open(void);

/* Return the response that reads from the stream, and the stream's media type. Loop's thread. */
struct MHD_Response *stream_response(struct bb_stream *stream);
const char *stream_type(const struct bb_stream *stream);
void stream_closed(struct bb_stream *stream);

#endif
