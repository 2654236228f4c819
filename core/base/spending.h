/*
 * Time that owners have had of a loop, of threads of pools and of long statements: whoever had more
 * than a share of it lately waits a little with the next request, while those of others are late.
 * What an owner had is a debt that its share of the time pays off; those who owe at the same time
 * have one share together. Only pieces of work that take long are charged, so that who asks for
 * little never waits, however often. Who has waited pays in advance what its pieces of work take of
 * late: others of its own must not go on before it is known what this one takes. Belongs to its
 * loop's thread.
 */
#ifndef CORE_SPENDING_H
#define CORE_SPENDING_H

#include "core/base/quota_table.h"

struct quota_turn;

enum {
    SPENDING_LEAST_US = 250, /* a piece of work that took less is not charged */
    SPENDING_WAIT_MS = 2000, /* nobody waits longer; so often one goes on all the same */
    SPENDING_ROWS = 64,      /* of the table, each with … */
    SPENDING_PLACES = 4      /* … so many owners: those who owe most */
};

struct spending_entry {
    struct quota_owner owner;
    int64_t debt_us;
    int64_t each_us;                 /* what a piece of its work takes of late */
    int64_t advance_us;              /* charged already, for what is to come */
    int64_t patient_ms;              /* when one of its went on though it owed; 0: never */
    struct quota_turn *first, *last; /* its requests that wait: quota_wait.c */
    size_t waiting;                  /* how many; while there are some it keeps its place */
};

struct spending_seen {
    struct quota_owner owner;
    int64_t at_ms;
};

struct spending {
    unsigned percent;   /* of the time: the share of one owner; 0: nobody is charged */
    int64_t settled_ms; /* when debts were what they are here */
    int64_t rest_us;    /* of what was paid: less than a microsecond for each of the debtors */
    struct spending_entry rows[SPENDING_ROWS][SPENDING_PLACES];
    struct spending_seen seen[2]; /* the last two that asked for something */
    int64_t late_until_ms;        /* so long answers count as late, see pg_pace.h */
};

/* A piece of work of the owner took so long. */
void spending_charge(struct spending *spending, const struct quota_owner *owner, int64_t now_ms,
                     int64_t took_us);

/* The owner has a request. */
void spending_asks(struct spending *spending, const struct quota_owner *owner, int64_t now_ms);

/* Whether several owners had a request a moment ago. */
bool spending_has_several(const struct spending *spending, int64_t now_ms);

/* Whether another one had. */
bool spending_has_others(const struct spending *spending, const struct quota_owner *owner,
                         int64_t now_ms);

/* The owner's place, as long as it has one; NULL: it has none, and owes nothing. */
struct spending_entry *spending_entry_of(struct spending *spending,
                                         const struct quota_owner *owner);

/* For how many milliseconds the owner should wait until its next request is begun; 0: none. */
int64_t spending_wait_ms(struct spending *spending, const struct spending_entry *entry,
                         int64_t now_ms);

/* A request of the owner that has waited goes on. */
void spending_advance(struct spending *spending, struct spending_entry *entry, int64_t now_ms);

/* Whether a request that has waited for SPENDING_WAIT_MS may go on though its owner owes. */
bool spending_lets_go(struct spending_entry *entry, int64_t now_ms);

#endif
