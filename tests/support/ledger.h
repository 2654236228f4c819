/*
 * The ledger: proof that no message was lost. A load driver gives every message a unique marker. It
 * writes to fsync'ed files first that it intends to post the message and later that the message was
 * acknowledged. After the fault the ledger is compared with the database:
 *
 *   lost        acknowledged, but not stored in the place and form that the response named
 *   phantom     stored, but never intended
 *   repeated    stored more than once
 *   chain       gaps or forks in the order, a wrong head, a wrong last entry
 *   counters    the number of entries or an unread count differs from a recount
 *
 * All must be 0. A message that was intended and not acknowledged may be stored once or not at all.
 * The files: DIRECTORY/intent has lines "marker conversation", DIRECTORY/acknowledged has lines
 * "marker status uuid". Any number of threads may write; all other functions are for one thread.
 */
#ifndef TESTS_LEDGER_H
#define TESTS_LEDGER_H

#include <libpq-fe.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEDGER_PREFIX "ledger-" /* prefix of every marker; messages without it are ignored */

enum { LEDGER_MARKER = 64, LEDGER_UUID = 37 };

struct ledger { /* the two files, open for appending */
    int intent, acknowledged;
};

/* Creates the files in an existing directory. */
struct ledger *ledger_open(const char *directory);

/* Return when the line is on the disk: 0, or -1 with errno. */
int ledger_intend(const struct ledger *ledger, const char *marker, int64_t conversation);
int ledger_acknowledge(const struct ledger *ledger, const char *marker, long status,
                       const char *uuid);

void ledger_close(struct ledger *ledger);

/* ---- the load ---- */

struct ledger_load {
    struct ledger *ledger;
    const char *address;    /* "127.0.0.1" */
    const atomic_int *port; /* port of each host; may change while the load runs */
    int hosts;              /* writers use them in turn; 0: one host */
    const char *token;
    int64_t conversation;
    const char *authors[2]; /* the authors of the messages, in turn */
    int writers;            /* threads */
    long count;             /* total of acknowledged messages to reach */
    int seconds;            /* time limit, times PATIENCE */
    atomic_int pause_ms;    /* pause of each writer after an acknowledged message */
    bool fresh; /* a new connection for each message, because libcurl sends a request again if a
                 * kept connection breaks */
    atomic_long acknowledged; /* number so far */
    atomic_long refused;      /* responses other than 201, and requests without a response */
    atomic_long cut;          /* part of refused: sent on a connection that then broke */
    atomic_long wrong;        /* part of refused: a response other than 503 */
    atomic_long bare;         /* part of refused: 503 without Retry-After */
    atomic_long slowest_ms;   /* the longest time to a response */
};

/* Posts until `count` messages are acknowledged (returns 0) or the time is over (returns -1). */
int ledger_load(struct ledger_load *load);

/* ---- the check ---- */

struct ledger_report {
    size_t acknowledged, stored; /* markers; a marker that is stored twice counts once */
    size_t unsure;               /* stored without acknowledgement: allowed */
    const char *text;            /* all sums */
};

/* Compares the ledger with the database and fails the test unless they agree. No message of the
 * conversations may be marked as read. */
struct ledger_report ledger_check(const char *directory, PGconn *db);

#endif
