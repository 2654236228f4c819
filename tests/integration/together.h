/*
 * Requests that are held until they wait for a connection together, however slow the machine is.
 */
#ifndef TESTS_TOGETHER_H
#define TESTS_TOGETHER_H

#include "talk.h"

struct together {
    const struct host *host;
    const struct person *admin; /* who reads the metrics */
    PGconn *db;
    const char *tables; /* as LOCK TABLE takes them: what the requests stop at */
    const char *pool;   /* of the host's first loop: "read", "unit", "write" */
    int least;          /* this many wait, or share what waits, before the tables are let go */
    /* NULL, or a statement of another connection, which takes rows that the requests stop at next;
     * it is committed when one waits for them. */
    const char *change;
    PGconn *changing;
    int64_t shared; /* before it began; set by ask_together() */
};

/* Sends them all at once; fails the test where they did not wait together in good time. */
void ask_together(struct together *held, const struct call *calls, struct answer **answers,
                  int count);

/* A figure of a pool of the host's first loop, as /metrics has it: a loop publishes its own from
 * time to time. */
int64_t pool_metric(const struct together *of, const char *name);

/* Waits until the pool says that more than `count` requests shared a statement; else fails the
 * test. */
void expect_shared(const struct together *of, int64_t count);

#endif
