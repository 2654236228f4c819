/*
 * PostgreSQL in a loop.
 *
 * What is asked is an *entry*: one or more statements that belong together (a query is an entry of
 * one, a unit an entry of several). Entries wait in a *pool* of connections and travel in
 * *batches*: all that a connection is given in one turn, closed by one Sync, and so in one
 * transaction. The pools:
 *
 *   read   queries; several batches may be under way on a connection; a lost one is sent again
 *   write  single statements that write; the same, but never sent again once they were sent
 *   unit   transactions known beforehand; one batch at a time on a connection, so that what comes
 *          meanwhile gathers and shares the next commit; never sent again once the Sync was sent
 *   long   statements that may take long, and units with more than 64 KiB of values: one at a time
 *          on a connection, so that no batch waits for them
 *   tx     interactive transactions: a connection is checked out by one request (pg_tx.c)
 *
 * When an entry of a batch fails, PostgreSQL skips the rest of it; in the unit pool the whole batch
 * is undone. Entries that did not fail by themselves are sent again, those of the unit pool singly.
 *
 * What waits is served owner by owner (fair_queue.h), and one owner has a share of a pool
 * (quota.h): of what waits, of the long statements under way, and of the connections that are
 * checked out.
 *
 * An entry outlives its request: a request that gives up calls pg_entry_abandon(), and what comes
 * later is dropped. All of this belongs to the loop's thread.
 */
#ifndef CORE_PG_H
#define CORE_PG_H

#include <libpq-fe.h>

#include <busbar/sql.h>

#include "core/base/fair_queue.h"
#include "core/loop/loop.h"
#include "core/postgres/resolver.h"
#include "core/request/request.h"

enum pg_pool_kind { PG_READ, PG_WRITE, PG_UNIT, PG_LONG, PG_TX, PG_POOLS };
extern const char *const pg_pool_names[PG_POOLS];

/* One statement with its values, ready for libpq. */
struct pg_op {
    struct pg_op *next;
    const struct bb_sql *sql;
    const struct bb_host *host; /* of the module that asks */
    int count;
    const char **values;
    int *lengths;
    int *formats;
    PGresult *result;         /* owned until taken */
    struct pg_shared *shared; /* or this, of which it has a part: pg_keyed.c */
    const int *order;         /* of `shared`: which rows are its own */
    int rows;                 /* … and how many */
};

/* Rows of a statement, as modules get them. */
struct bb_rows {
    const PGresult *result;
    const int *order; /* which of its rows; NULL: all of them */
    int count;
};

struct pg_entry {
    struct pg_entry *next;
    struct fair_entry queued; /* among what waits; its owner, too, while it is under way */
    struct pg_pool *pool;     /* while it has an owner */
    struct core_request *rq;  /* NULL: abandoned */
    struct pg_op *ops, *last;
    size_t bytes;              /* of its values */
    uint64_t key;              /* unit pool: which connection */
    unsigned tries;            /* how often it has been sent */
    int64_t asked_us, sent_us; /* monotonic; sent_us 0: not yet */
    bool write;                /* not to be sent again after a lost connection */
    bool alone;                /* in a batch of its own */
    bool single;               /* in no execution together with others */
    bool follows;              /* travels in the executions of an entry before it in its batch */
    unsigned members;          /* entries in its executions; 0: it has its own, or follows */
    struct pg_entry *mate;     /* the next of them */
    bool sent;                 /* in a batch under way */
    bool running;              /* counted as under way for its owner */
    bool large;                /* a unit in the long pool, in the list of these: */
    struct pg_entry *large_next;
    bool done; /* the request may take the results */
    struct failure failure;
    struct arena *memory; /* the entry itself and its values */
};

struct pg_settings {
    const char *url;
    unsigned connections[PG_POOLS];
    size_t queue;    /* entries that may wait in a pool */
    unsigned gather; /* entries in one execution of a keyed statement; 1: none are put together */
    unsigned share;  /* percent of it, and of long or checked out connections, for one owner */
    unsigned statement_ms; /* statement_timeout */
    unsigned connect_ms;
    struct resolver *resolver; /* of the url's servers; NULL: as they are written */
};

struct pg_pool;
struct pg_tx; /* a checked out connection */

struct pg *pg_new(struct loop *loop, const struct pg_settings *settings);
void pg_free(struct pg *pg);

/* Changes what a reload may: queue, share and gather. */
void pg_set_limits(struct pg *pg, const struct pg_settings *to);

/* A pool, for who watches. */
struct pg_pool_status {
    unsigned connections, ready; /* wanted, usable */
    size_t batches;              /* under way */
    size_t waiting;              /* entries; in the tx pool requests for a connection */
    size_t shared, sharers;      /* executions that several entries shared, and those, ever */
};

void pg_pool_look(const struct pg *pg, enum pg_pool_kind kind, struct pg_pool_status *status);

/* Sends what this turn gathered. Called once a turn. */
void pg_flush(struct pg *pg);

/* A new entry for a request; NULL: out of memory. */
struct pg_entry *pg_entry_new(struct core_request *rq);

/* Adds a statement; the values are copied. NULL: out of memory. */
struct pg_op *pg_entry_add(struct pg_entry *entry, const struct bb_sql *sql,
                           const struct bb_value *values, size_t count);

/* The pool for one statement outside of a unit or transaction. */
enum pg_pool_kind pg_pool_for(const struct bb_sql *sql);

/* Puts an entry into a pool (pg NULL: no database is configured). 0; or -1 with the request's
 * failure set (busy, unavailable). */
int pg_submit(struct pg *pg, enum pg_pool_kind pool, struct pg_entry *entry);

/* The request gives up; frees the entry now or when its answer has come. */
void pg_entry_abandon(struct pg_entry *entry);

void pg_entry_free(struct pg_entry *entry);

/* Whether the statement has an answer. */
bool pg_op_answered(const struct pg_op *op);

/* The rows of an answered statement; they last as long as what it owns. */
struct bb_rows pg_op_rows(const struct pg_op *op);

/* Rows of a statement and the result that holds them, as a request keeps them. */
struct pg_kept {
    struct bb_rows rows;
    PGresult *result;
    struct pg_shared *shared;
};

/* Room for them in the arena, which frees what it will hold. NULL: no memory. */
struct pg_kept *pg_kept_new(struct arena *arena);

/* Takes what the statement owned; NULL where it has no answer. */
struct bb_rows *pg_keep(struct pg_kept *kept, struct pg_op *op);

/*
 * Lends a connection of the tx pool to the request, waiting for one. NULL with the failure set.
 * Given back by pg_tx_end(); if a statement is under way then, the connection is closed.
 */
struct pg_tx *pg_tx_begin(struct core_request *rq);
/* Runs an entry's statements on it; the entry is taken, and is the caller's again with 0. 0 or -1.
 */
int pg_tx_run_item(struct pg_tx *tx, struct pg_entry *entry);
/* Runs one statement on it: the result (owned by the request's arena), or NULL with the failure. */
PGresult *pg_tx_run(struct pg_tx *tx, const struct bb_sql *sql, const struct bb_value *values,
                    size_t count);
void pg_tx_end(struct pg_tx *tx);
/* The same, and closes the connection: what it holds (a lock) nobody will give back. */
void pg_tx_drop(struct pg_tx *tx);

/* Fills a failure from an error result; op NULL: of the commit. */
void pg_failure(struct failure *failure, const struct pg_op *op, const PGresult *result);

/* pg_options.c: what PQconnectStartParams() takes. */
struct pg_target {
    const struct pg_settings *settings;
    const char *keys[20], *values[20], **options;
    struct resolver_found found;
};

/* Fills it for the settings; RESOLVER_LATER and RESOLVER_NONE: there is nowhere to connect to. */
enum resolver_state pg_target(const struct pg_settings *settings, struct pg_target *place);

/* Begins to connect. NULL: out of memory. */
PGconn *pg_target_connect(struct pg_target *place);

/*
 * Options of the server for a connection of any kind: those of the url (or PGOPTIONS) with what the
 * host needs pinned, and `more`. To be freed; NULL: out of memory.
 */
char *pg_options(const char *url, const char *more);

/*
 * pg_check.c: checks whether a new session is as busbar asked for; some connection poolers change
 * sessions. The text is one SELECT of one row. `mark` (letters, digits, blanks) is set in
 * the session; statement_ms: statement_timeout, 0: it is not asked for.
 */
enum { PG_CHECK_SIZE = 2048 };
#define PG_CHECK_SHARED                                                                            \
    "a connection pooler gives one session to several connections: let it pool whole sessions "    \
    "(PgBouncer: pool_mode=session), or connect to PostgreSQL itself"
void pg_check_text(char text[PG_CHECK_SIZE], unsigned statement_ms, const char *mark);
/* The SELECT, with a row as long as the session is the one that has this mark, else with none. */
void pg_check_again_text(char text[PG_CHECK_SIZE], const char *select, const char *mark);
/* Whether the result of pg_check_text() is good; else `problem` names the problem. */
bool pg_check_passed(const PGresult *result, char *problem, size_t size);

/* Once, before there are threads: variables that libpq would send after the options. */
void pg_clean_environment(void);

/* The server that a connection waits for is silent, see resolver_rotate(). */
void pg_rotate(struct resolver *resolver, unsigned turn, const PGconn *conn);

/* A notice receiver that keeps libpq from writing to stderr, between the lines of the log. */
void pg_drop_notice(void *arg, const PGresult *result);

/*
 * pg_notice.c: whether the notice says that PostgreSQL stopped waiting for its synchronous standby.
 * The transaction is committed on this server only, and a failover may lose it.
 */
bool pg_notice_is_unreplicated(const PGresult *notice);

#endif
