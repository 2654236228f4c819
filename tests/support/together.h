/*
 * Requests that are held until all of them wait for a connection at the same time, however slow the
 * machine is.
 */
#ifndef TESTS_TOGETHER_H
#define TESTS_TOGETHER_H

#include "talk.h"

struct together {
    const struct host *host;
    const struct person *admin; /* reads the metrics */
    PGconn *db;
    const char *tables; /* an argument of LOCK TABLE: the locks that hold the requests */
    const char *pool;   /* pool of the host's first loop: "read", "unit", "write" */
    int least;          /* release the tables when this many requests wait or share a waiting
                         * statement */
    /* NULL, or a statement of another connection that locks the rows which the requests need next;
     * it is committed when a request waits for them. */
    const char *change;
    PGconn *changing;
    int64_t shared; /* count at the beginning; set by ask_together() */
};

/* Sends all requests at once; fails the test if they did not wait together in time. */
void ask_together(struct together *held, const struct call *calls, struct answer **answers,
                  int count);

/* Returns a metric of a pool of the host's first loop from /metrics. A loop publishes its metrics
 * periodically, so the value may be old. */
int64_t pool_metric(const struct together *of, const char *name);

/* Waits until the pool reports that more than `count` requests shared a statement; fails the test
 * otherwise. */
void expect_shared(const struct together *of, int64_t count);

#endif
