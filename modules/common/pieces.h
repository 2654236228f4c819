/*
 * Responses of any length as a stream of pieces, in bounded memory.
 *
 * A work function makes and sends a piece, and is called again for the next one. Before it is
 * called, the stream waits until the client has received most of the earlier data. So there are one
 * or two pieces in memory, and no database connection is held while the client does not read. If an
 * error occurs, the stream is cut, so that the client can see that the response is incomplete. Each
 * module that uses this has its own copy compiled in.
 */
#ifndef PIECES_H
#define PIECES_H

#include <busbar/busbar.h>

/* A response in progress. It frees itself. */
struct pieces;

enum pieces_next { PIECES_MORE, PIECES_WHOLE, PIECES_CUT };

struct pieces_source {
    const char *type; /* Content-Type */
    const char *name; /* of the file that browsers save; NULL: none */
    size_t ready;     /* bytes that may wait for the client before a piece is made */
    /* Sends the next piece, if any, and returns whether more follows. May park the fiber. */
    enum pieces_next (*work)(struct bb_request *rq, struct pieces *pieces, void *arg);
    void (*drop)(struct bb_host *host, void *arg); /* called at the end, on any thread */
};

/*
 * Responds with a stream that begins with these bytes; bytes NULL means that there was no memory
 * for them. `source` must live until `drop` is called. Takes ownership of `arg`, also on failure.
 * Returns the status of the response sent. May park the fiber.
 */
int pieces_begin(struct bb_request *rq, const struct pieces_source *source, void *arg,
                 const char *bytes, size_t length);

/*
 * For `work`: copies bytes into the stream, if there are any. Returns 0, or -1 if the client has
 * gone or memory ran out.
 */
int pieces_send(struct pieces *pieces, const char *bytes, size_t length);

#endif
