/*
 * Answers that are arrays of any length, in bounded memory: what is read from the database at a
 * time is bounded in bytes, and the next part is read when the client has taken most of the one
 * before.
 */
#ifndef CHAT_ARRAY_H
#define CHAT_ARRAY_H

#include "chat.h"

/* Items of an answer that is not sent in pages. */
enum { CHAT_SHORT = 200 };

/* Bytes of text and items asked for at a time; the last message may go beyond the bytes. */
enum { CHAT_PAGE_BYTES = 256 * 1024, CHAT_PAGE_ROWS = 1000 };

/* A piece of an array's JSON. All zero is an empty one at the array's beginning. */
struct chat_text {
    char *bytes; /* free() */
    size_t length, room;
    bool begun;  /* there are items before it */
    bool failed; /* out of memory */
};

/* Appends an item, which is taken; NULL is out of memory. */
void chat_text_add(struct bb_request *rq, struct chat_text *text, json_t *item);

struct chat_array_source {
    /* Appends what follows: 1: there is more, 0: that was the last, -1: failed. Parks. */
    int (*read)(struct bb_request *rq, struct chat_text *text, void *arg);
    void (*free)(void *arg);
    void *arg;
};

/*
 * Answers 200 with the array that the source gives, which is taken, as is the place that the caller
 * has taken for it. Where something fails on the way the connection is cut, so that what is missing
 * does not look like the end. Returns the status, as a handler does.
 */
int chat_array_send(struct bb_request *rq, const struct chat_array_source *source);

/* places.c: 0, or the status of the answer given; parks. `give` may be called on any thread. */
struct chat_places *chat_places_new(struct bb_host *host, size_t count, size_t each);
void chat_places_free(struct chat_places *places);
int chat_place_take(struct bb_request *rq, struct chat_places *places);
void chat_place_give(struct chat_places *places, int64_t account);

#endif
