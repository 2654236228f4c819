/*
 * A client of GET /api/chat/stream: opens it on a bare socket and decodes the chunked encoding and
 * the Server-Sent Events. Everything lives as long as the process.
 */
#ifndef TESTS_SSE_H
#define TESTS_SSE_H

#include "client.h"

struct sse_event {
    char *name, *id, *data; /* NULL: the block has no such line; the stream's last_id keeps the
                             * latest id */
    json_t *json;
};

struct sse {
    int fd;
    int status;
    char *headers;
    char *last_id;
    bool of_api;   /* its events are JSON and in the reference */
    bool ended;    /* the host closed the connection */
    bool complete; /* … after the last chunk, so nothing is missing */
    size_t comments, retries;
    char *raw, *text; /* received but not decoded; decoded but not taken */
    size_t raw_length, text_length, raw_room, text_room;
};

/* Sends the request and reads the response's headers. `last` may be NULL, receive_bytes 0. */
struct sse *sse_open(const struct host *host, const char *token, const char *last,
                     int receive_bytes);

/* Like sse_open(), for another path. */
struct sse *sse_open_at(const struct host *host, const char *path, const char *token,
                        const char *last, int receive_bytes);

/* Returns the next event with a name or data; NULL if there is none within `ms` times PATIENCE
 * (process.h) or the stream has ended. */
struct sse_event *sse_next(struct sse *sse, int ms);

/* Like sse_next() without the patience, for events that must not come. */
struct sse_event *sse_within(struct sse *sse, int64_t ms);

/* Reads until the host closes, and drops the events. Returns false after `ms` times PATIENCE. */
bool sse_ends(struct sse *sse, int ms);

/* Returns the text of the message in an event's payload. */
const char *sse_entry(const struct sse_event *event);

void sse_close(struct sse *sse);

#endif
