/*
 * Answers of any length as a stream of pieces, in bounded memory.
 *
 * A piece of work makes and sends a piece, and the next one is asked for when it is done; before it
 * begins, it waits until the client has taken most of what went before. So there is a piece or two
 * in memory, and no connection to the database while the client does not read. When something fails
 * the stream is cut, so that what is missing does not look like the end. Each module that uses it
 * is built with a copy of its own.
 */
#ifndef PIECES_H
#define PIECES_H

#include <busbar/busbar.h>

/* An answer under way. It frees itself. */
struct pieces;

enum pieces_next { PIECES_MORE, PIECES_WHOLE, PIECES_CUT };

struct pieces_source {
    const char *type; /* Content-Type */
    const char *name; /* of the file that browsers save; NULL: none */
    size_t ready;     /* bytes that may wait for the client when a piece is made */
    /* Sends the next piece, if there is one, and says what follows. Parks. */
    enum pieces_next (*work)(struct bb_request *rq, struct pieces *pieces, void *arg);
    void (*drop)(struct bb_host *host, void *arg); /* at the end, on any thread */
};

/*
 * Answers with a stream that begins with these bytes; bytes NULL: there was no memory for them.
 * `source` lives as long as the module. `arg` is the answer's from here on, whatever becomes of it.
 * The status of the answer given. Parks.
 */
int pieces_begin(struct bb_request *rq, const struct pieces_source *source, void *arg,
                 const char *bytes, size_t length);

/* For `work`: copies bytes into the stream, if there are any. 0, or -1: there is nobody to read
 * them, or no memory. */
int pieces_send(struct pieces *pieces, const char *bytes, size_t length);

#endif
