/*
 * Who listens, findable by what a message is addressed to: an e-mail, an organisation, everybody.
 * And whose turn it is among those that are behind: accounts take turns, and in an account its
 * listeners do, so nobody waits longer because another account has many. Guarded by the hub.
 */
#ifndef CHAT_LISTENERS_H
#define CHAT_LISTENERS_H

#include "modules/chat/live/live.h"

/* A listener's place under one of its keys. */
struct listener_key {
    struct listener_key *next, **place;
    uint64_t hash;
    struct chat_listener *listener;
};

/* An account that listens here. */
struct listener_account {
    struct listener_account *next; /* in its place of the table */
    int64_t id;
    size_t streams;
    uint64_t turn; /* the last one that it had */
};

struct chat_listener {
    struct chat_listener *next, *before;
    struct chat_listener *next_behind, *before_behind; /* of those that are behind */
    uint64_t number;                                   /* rising; never used again; 0: not listed */
    struct bb_host *host;
    struct bb_stream *stream;
    struct chat_scope scope;          /* a copy */
    struct listener_account *account; /* of the table, from being listed on */
    int64_t account_id;
    struct chat_cursor *at; /* owned, exact; NULL: the hub has passed it */
    bool behind;
    uint64_t turn;          /* the last one that it had */
    struct chat_page *page; /* that it is in the middle of; NULL: none */
    size_t event;           /* the next of that page */
    size_t wanted;          /* bytes of an event that there was no room for */
    unsigned pages;         /* that were not in memory, since it fell behind */
    bool ended;             /* nothing is sent any more */
    int64_t sent_ms;        /* when it was sent something */
    uint64_t offered;       /* the last event that was offered */
    size_t key_count;
    struct listener_key keys[];
};

struct listeners {
    struct chat_listener *first, *behind;
    struct listener_key **table;
    struct listener_account **accounts;
    size_t count, behind_count;
    uint64_t numbers, offers, turns;
};

int listeners_init(struct listeners *all);
void listeners_free(struct listeners *all);

/* Enlists one that is behind. 0, or -1 without memory. */
int listeners_add(struct listeners *all, struct chat_listener *listener);

/* No effect on one that is not there. */
void listeners_remove(struct listeners *all, struct chat_listener *listener);

/* Calls with each that may see the conversation, once; whoever is called must still ask
 * chat_sees(). */
void listeners_of(struct listeners *all, const struct chat_facts *facts,
                  void (*call)(struct chat_listener *listener, void *arg), void *arg);

/* How many of an account there are. */
size_t listeners_count(const struct listeners *all, int64_t account);

/* turns.c: whether it is behind. */
void listeners_set_behind(struct listeners *all, struct chat_listener *listener, bool behind);

/* Whose turn it is of those behind that `ready` says yes of; it has had it then. NULL: nobody's. */
struct chat_listener *listeners_turn(struct listeners *all,
                                     bool (*ready)(const struct chat_listener *listener));

#endif
