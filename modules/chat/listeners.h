/*
 * Who listens, findable by what a message is addressed to: an e-mail, an organisation, everybody.
 * Guarded by the hub.
 */
#ifndef CHAT_LISTENERS_H
#define CHAT_LISTENERS_H

#include "live.h"

/* A listener's place under one of its keys. */
struct listener_key {
    struct listener_key *next, **place;
    uint64_t hash;
    struct chat_listener *listener;
};

struct chat_listener {
    struct chat_listener *next, *before;
    uint64_t number; /* rising; never used again */
    struct bb_host *host;
    struct bb_stream *stream;
    struct chat_scope scope; /* a copy */
    int64_t account;
    struct chat_cursor *at; /* owned; NULL: the hub has passed it */
    bool behind;
    unsigned pages;   /* that were read for it alone */
    int64_t sent_ms;  /* when it was sent something */
    uint64_t offered; /* the last event that was offered */
    size_t key_count;
    struct listener_key keys[];
};

struct listeners {
    struct chat_listener *first;
    struct listener_key **table;
    uint64_t numbers, offers;
};

int listeners_init(struct listeners *all);
void listeners_free(struct listeners *all);
void listeners_add(struct listeners *all, struct chat_listener *listener);

/* No effect on one that is not there. */
void listeners_remove(struct listeners *all, struct chat_listener *listener);

/* Calls with each that may see the conversation, once; whoever is called must still ask
 * chat_sees(). */
void listeners_of(struct listeners *all, const struct chat_facts *facts,
                  void (*call)(struct chat_listener *listener, void *arg), void *arg);

#endif
