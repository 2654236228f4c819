/*
 * A loop with the host's pools of connections and requests on fibers, as an engine makes them,
 * before the scripted server of pg_script.h; without an engine, and with as many connections as the
 * test says.
 */
#ifndef TESTS_UNIT_PG_STAGE_H
#define TESTS_UNIT_PG_STAGE_H

#include "core/postgres/pg_pool.h"
#include "core/postgres/sql.h"
#include "pg_script.h"

enum {
    STAGE_DEADLINE_MS = 10000, /* of a request that says nothing else: none comes so far */
    STAGE_SHORT_MS = 250,      /* for what has to end by time; all else takes far less */
    STAGE_SECONDS = 30,        /* of a test, at most */
    STAGE_SIZE = 128
};

/* Hosts, ports, other settings. */
#define STAGE_URL "host=%s port=%s user=u dbname=d sslmode=disable gssencmode=disable %s"

extern struct pg_script stage_server;
extern struct loop stage_loop;
extern struct generation stage_generation; /* of all requests; without modules */

/* What a request does, and what has become of it. */
struct stage_call {
    void (*work)(struct core_request *rq, struct stage_call *call); /* NULL: asks `sql` */
    struct bb_sql sql;
    uint64_t key;        /* of a unit */
    int64_t deadline_ms; /* from when it is asked; 0: STAGE_DEADLINE_MS */
    /* from here on: what came of it */
    bool ended;
    struct failure failure;
    char text[STAGE_SIZE]; /* the first value of its first row */
    int status;            /* that it answered */
    unsigned told;         /* how often it heard that its transaction is committed */
};

/* The server listens, and nothing is connected yet: fixtures. */
void stage_set_up(void);
void stage_tear_down(void);

/* Connects so many in the pool, to stage_server or where `hosts` and `ports` say. */
struct stage_place {
    const char *hosts, *ports, *more; /* NULL: those of stage_server; no more settings */
    unsigned connect_ms, gather;      /* 0: far too long; nobody shares executions */
};
void stage_open(enum pg_pool_kind kind, unsigned count);
void stage_open_at(enum pg_pool_kind kind, unsigned count, const struct stage_place *place);
/* Closes them all; also done by stage_tear_down(). */
void stage_close(void);
struct pg_conn *stage_conn(enum pg_pool_kind kind, unsigned index);

/* What stage_server does otherwise, see pg_script.h. */
void stage_play(enum script_when when, const char *text, enum script_act act, const char *say);
void stage_play_cut(enum script_when when, const char *text, size_t bytes);
/* All of it has been played. */
bool stage_is_played(void);

/* Begins the request. */
void stage_ask(struct stage_call *call);
/* Turns the loop until this is so, or all that was asked has ended, and its hooks. */
void stage_until(bool (*is_so)(void));
void stage_finish(void);
/* One request from its beginning to its end. */
void stage_do(struct stage_call *call);

/* Works of a request. */
void stage_query(struct core_request *rq, struct stage_call *call);
void stage_unit(struct core_request *rq, struct stage_call *call);

/* Fails where the request has not got its own row; where it has not failed so. */
void stage_expect_row(const struct stage_call *call);
void stage_expect_failure(const struct stage_call *call, enum failure_kind kind);

#endif
