/*
 * The ledger: proof that nothing was lost. A load driver gives every message a marker that is
 * unique, and appends to files of its own, fsync'ed, first that it intends to post it and then that
 * it was acknowledged. After the fault the ledger is laid beside the database:
 *
 *   lost        acknowledged, but not stored where and as what the answer said
 *   phantom     stored, but never intended
 *   repeated    stored more than once
 *   chain       gaps or forks in the order, a wrong head, a wrong last entry
 *   counters    the number of entries or an unread count differs from a recount
 *
 * All must be 0. What was intended and not acknowledged may be stored once or not at all.
 * The files: DIRECTORY/intent has lines "marker conversation", DIRECTORY/acknowledged has lines
 * "marker status uuid". Writing is for any number of threads; the rest for one.
 */
#ifndef TESTS_LEDGER_H
#define TESTS_LEDGER_H

#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_PREFIX "ledger-" /* every marker begins so; messages that do not are not ours */

enum { LEDGER_MARKER = 64, LEDGER_UUID = 37 };

struct ledger; /* the two files, open for appending */

/* Opens or makes the files in a directory that is there. NULL with errno. */
struct ledger *ledger_open(const char *directory);

/* Both return when the line is on the disk. 0, or -1 with errno. */
int ledger_intend(struct ledger *ledger, const char *marker, int64_t conversation);
int ledger_acknowledge(struct ledger *ledger, const char *marker, long status, const char *uuid);

void ledger_close(struct ledger *ledger);

/* ---- the load (ledger_load.c) ---- */

struct ledger_load {
    struct ledger *ledger;
    const char *address;    /* "127.0.0.1" */
    const atomic_int *port; /* of each host; may change while it runs */
    int hosts;              /* writers take them in turn; 0: one */
    const char *token;
    int64_t conversation;
    const char *authors[2]; /* who writes, in turn */
    int writers;            /* threads */
    long count;             /* acknowledged messages to reach in all */
    int seconds;            /* to give up after */
    int pause_ms;           /* that each writer makes after an acknowledged message */
    bool fresh; /* a connection each: libcurl sends again what a kept one may have taken */
    atomic_long acknowledged; /* so far */
    atomic_long refused;      /* answers other than 201, and no answers */
    atomic_long cut;          /* of them: sent on a connection that then broke */
    atomic_long wrong;        /* of them: neither 503 nor without an answer */
    atomic_long bare;         /* of them: 503 without Retry-After */
    atomic_long slowest_ms;   /* the longest that any answer took */
};

/* Posts until `count` messages are acknowledged or the time is over. 0, or -1: not reached. */
int ledger_load(struct ledger_load *load);

/* ---- the check (ledger_check.c) ---- */

struct ledger_report {
    size_t intended, acknowledged, stored; /* markers; stored ones count once */
    size_t unsure;                         /* stored without acknowledgement: allowed */
    size_t lost, phantom, repeated, chain, counters;
};

/*
 * Lays the ledger beside the database. `recount`: compare unread counts, for conversations that
 * nobody has marked read. 0, or -1 when it could not be done (said on standard error).
 */
int ledger_check(const char *directory, PGconn *db, bool recount, struct ledger_report *report);

bool ledger_adds_up(const struct ledger_report *report);

/* One line of text, as `ledger check` prints it. */
void ledger_report_text(const struct ledger_report *report, char *out, size_t size);

#endif
