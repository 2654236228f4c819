/*
 * A loop with the host's connection pools and requests on fibers, set up as in an engine, against
 * the scripted server of pg_script.h. There is no engine, and the test chooses the number of
 * connections.
 */
#ifndef TESTS_UNIT_PG_STAGE_H
#define TESTS_UNIT_PG_STAGE_H

#include "core/store/pg_pool.h"
#include "core/store/sql.h"
#include "pg_script.h"

enum {
    STAGE_DEADLINE_MS = 10000, /* default of a request; no test reaches it */
    STAGE_SHORT_MS = 1000,     /* for requests that must time out; everything else takes far less */
    STAGE_SECONDS = 30,        /* time limit of a test */
    STAGE_SIZE = 128
};

/* Hosts, ports, other settings. */
#define STAGE_URL "host=%s port=%s user=u dbname=d sslmode=disable gssencmode=disable %s"

extern struct pg_script stage_server;
extern struct loop stage_loop;
extern struct generation stage_generation; /* used by all requests; has no modules */

/* The work of a request and its result. */
struct stage_call {
    void (*work)(struct core_request *rq, struct stage_call *call); /* NULL: executes `sql` */
    struct bb_sql sql;
    uint64_t key;        /* the key of a unit */
    int64_t deadline_ms; /* after the start of the request; 0: STAGE_DEADLINE_MS */
    /* the members below are the result */
    bool ended;
    struct failure failure;
    char text[STAGE_SIZE]; /* the first value of the first row */
    int status;            /* the status of the response */
    unsigned told;         /* number of notifications that its transaction is committed */
};

/* Fixtures: the server listens, but nothing is connected yet. */
void stage_set_up(void);
void stage_tear_down(void);

/* Connect this many connections of the pool to stage_server, or to `hosts` and `ports`. */
struct stage_place {
    const char *hosts, *ports, *more; /* NULL: stage_server's, or no more settings */
    unsigned connect_ms, merge_max;   /* 0: a very long timeout; executions are not shared */
};
void stage_open(enum pg_pool_kind kind, unsigned count);
void stage_open_at(enum pg_pool_kind kind, unsigned count, const struct stage_place *place);
/* Closes all connections; also done by stage_tear_down(). */
void stage_close(void);
struct pg_conn *stage_conn(enum pg_pool_kind kind, unsigned index);

/* Adds a line to the script of stage_server, see pg_script.h. */
void stage_play(enum script_when when, const char *text, enum script_act act, const char *say);
void stage_play_cut(enum script_when when, const char *text, size_t bytes);
/* Returns whether the whole script has been played. */
bool stage_is_played(void);

/* Starts the request. */
void stage_ask(struct stage_call *call);
/* Run the loop until the condition is true, or until all requests and their hooks have ended. */
void stage_until(bool (*is_so)(void));
void stage_finish(void);
/* Runs one request from start to end. */
void stage_do(struct stage_call *call);

/* Functions for stage_call.work. */
void stage_query(struct core_request *rq, struct stage_call *call);
void stage_unit(struct core_request *rq, struct stage_call *call);

/* Hook after a commit; `arg` is the stage_call. */
void stage_committed(struct bb_request *pub, struct bb_tx *tx, void *arg);

/* Fail the test unless the request has received its own row; unless it has failed this way. */
void stage_expect_row(const struct stage_call *call);
void stage_expect_failure(const struct stage_call *call, enum failure_kind kind);

#endif
