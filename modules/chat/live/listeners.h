/*
 * The set of listeners, indexed by e-mail, by organization, and for those that see everything, so
 * that the listeners of a message are found quickly. It also schedules the listeners that lag:
 * accounts take turns, and within an account its listeners take turns, so nobody waits longer
 * because another account has many listeners. Guarded by the hub's mutex.
 */
#ifndef CHAT_LISTENERS_H
#define CHAT_LISTENERS_H

#include "modules/chat/live/live.h"

/* A listener's table entry for one of its keys. */
struct listener_key {
    struct listener_key *next, **place;
    uint64_t hash;
    struct chat_listener *listener;
};

/* An account with at least one listener on this host. */
struct listener_account {
    struct listener_account *next; /* in its bucket */
    int64_t id;
    size_t streams;
    uint64_t turn; /* number of its most recent turn */
};

struct chat_listener {
    struct chat_listener *next, *before;
    struct chat_listener *next_behind, *before_behind; /* list of lagging listeners */
    uint64_t number;                                   /* rising; never reused; 0: not in the set */
    struct bb_host *host;
    struct bb_stream *stream;
    struct chat_scope scope;          /* a copy */
    struct listener_account *account; /* from the table; set by listeners_add() */
    int64_t account_id;
    struct chat_cursor *at; /* owned, exact; NULL: covered by the hub's position */
    bool behind;
    uint64_t turn;          /* number of its most recent turn */
    struct chat_page *page; /* the page it is in the middle of; NULL: none */
    size_t event;           /* index of the next event in `page` */
    size_t wanted;          /* bytes of an event that did not fit */
    unsigned pages;         /* pages not in memory since it began to lag */
    bool ended;             /* nothing more is sent */
    int64_t sent_ms;        /* time of the last send */
    uint64_t offered;       /* number of the last offer; avoids offering twice */
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

/*
 * Creates a listener at a cursor, with a copy of the scope. The caller sets its stream, then passes
 * the listener to chat_hub_add(). Returns NULL if out of memory.
 */
struct chat_listener *chat_listener_new(struct bb_host *host, const struct chat_scope *scope,
                                        int64_t account, const struct chat_cursor *at);
void chat_listener_free(struct chat_listener *listener);

int listeners_init(struct listeners *all);
void listeners_free(struct listeners *all);

/* Adds a listener, which then lags. Returns 0, or -1 if out of memory. */
int listeners_add(struct listeners *all, struct chat_listener *listener);

/* Does nothing if the listener is not in the set. */
void listeners_remove(struct listeners *all, struct chat_listener *listener);

/*
 * Calls `call` once for each listener that may be allowed to see the conversation; `call` must
 * still check with chat_sees().
 */
void listeners_of(struct listeners *all, const struct chat_facts *facts,
                  void (*call)(struct chat_listener *listener, void *arg), void *arg);

/* Returns the number of listeners that an account has. */
size_t listeners_count(const struct listeners *all, int64_t account);

/* Marks the listener as lagging, or not. */
void listeners_set_behind(struct listeners *all, struct chat_listener *listener, bool behind);

/*
 * Returns the next lagging listener, in turn, for which `ready` returns true, and counts this as
 * its turn. Returns NULL if there is none.
 */
struct chat_listener *listeners_turn(struct listeners *all,
                                     bool (*ready)(const struct chat_listener *listener));

#endif
