/*
 * A client of GET /api/chat/stream: opens it on a bare socket, takes the chunked coding and the
 * Server-Sent Events apart. Everything lives as long as the process.
 */
#ifndef TESTS_SSE_H
#define TESTS_SSE_H

#include "client.h"

struct sse_event {
    char *name, *id, *data; /* NULL: the block has no such line; id lasts in the stream's last_id */
    json_t *json;
};

struct sse {
    int fd;
    int status;
    char *headers;
    char *last_id;
    bool of_api;   /* its events are JSON, and in the reference */
    bool ended;    /* the host closed */
    bool complete; /* … after the last chunk, so that nothing is missing */
    size_t comments, retries;
    char *raw, *text; /* received, not decoded; decoded, not taken */
    size_t raw_length, text_length;
};

/* Sends the request and reads the answer's headers. `last` may be NULL, receive_bytes 0. */
struct sse *sse_open(const struct host *host, const char *token, const char *last,
                     int receive_bytes);

/* The same of another path than chat's. */
struct sse *sse_open_at(const struct host *host, const char *path, const char *token,
                        const char *last, int receive_bytes);

/* The next event with a name or data; NULL: none within `ms`, or the end. */
struct sse_event *sse_next(struct sse *sse, int ms);

/* Reads until the host closes; false: it did not within `ms`. Events are dropped. */
bool sse_ends(struct sse *sse, int ms);

/* The text of the message in an event's payload. */
const char *sse_entry(const struct sse_event *event);

void sse_close(struct sse *sse);

#endif
