/*
 * The host's side of a request: a piece of work on a fiber of one loop. `struct http_txn` (http.h)
 * is a request that came over HTTP; jobs, commands and committed hooks are plain ones.
 *
 * Waiting: whoever needs something starts it, and calls request_wait() with the flag that will be
 * set when it is there; whoever sets the flag calls request_wake(). The deadline wakes, too.
 * What is still under way when the wait was given up must not point to the request any more.
 */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include <busbar/busbar.h>

#include "core/base/arena.h"
#include "core/base/quota_table.h"
#include "core/base/trace.h"
#include "core/generation/generation.h"
#include "core/loop/loop.h"

enum request_kind { REQUEST_HTTP = 1, REQUEST_JOB, REQUEST_HOOK, REQUEST_COMMAND };

enum failure_kind {
    FAILED_NOT,
    FAILED_SQL,         /* sqlstate says how */
    FAILED_UNAVAILABLE, /* a dependency is down, or its answer was lost */
    FAILED_BUSY,        /* a bounded queue is full */
    FAILED_SHARE,       /* … as far as it is the owner's; see quota.h */
    FAILED_DEADLINE,
    FAILED_MEMORY,
    FAILED_REFUSED, /* a statement that the host does not send; logged */
    FAILED_ANSWERED /* an answer has been given already (a hook's veto) */
};

struct failure {
    enum failure_kind kind;
    char sqlstate[6];
    char constraint[64];
    char text[160];             /* PostgreSQL's primary message; shown to clients for BBnnn only */
    const struct bb_sql *sql;   /* which statement; NULL: the commit */
    const struct bb_host *host; /* of the module that sent it; NULL: of the host itself */
    bool stale;   /* its prepared statement is gone, or does not fit the tables any more */
    bool passing; /* a migration runs: what is undefined may be there soon */
    bool told;    /* it is in the log */
};

struct response_header {
    struct response_header *next;
    const char *name, *value;
};

struct response {
    int status;        /* 0: none yet */
    char *body;        /* malloc'ed, or NULL */
    const char *fixed; /* static, where there is no memory for `body`; or NULL */
    size_t length;
    int file; /* in place of `body`: a descriptor, owned; 0: none */
    struct response_header *headers;
};

/* Where the time of a request went, microseconds. */
struct request_spent {
    int64_t work_us;     /* on the host's side: from the start of its fibers to their end */
    int64_t queue_us;    /* of it: waiting for a connection or a thread of a pool */
    int64_t database_us; /* of it: waiting for PostgreSQL */
};

struct core_request {
    struct bb_request pub; /* first: a pointer to one is a pointer to the other */
    enum request_kind kind;
    const struct bb_route *route; /* of HTTP: the one that was found, or NULL */
    const char *name;             /* of the job, the hook's event, the command; NULL: none */
    struct loop *loop;
    struct generation *generation; /* held */
    struct quota_owner owner;      /* whose it is; see quota.h */
    struct arena *arena;
    struct arena *outer; /* the request's own, while `arena` is request_scratch()'s; else NULL */
    void (*entry)(struct core_request *rq); /* runs on the fiber */
    void (*ended)(struct core_request *rq); /* after the fiber, on the loop's stack */
    void (*cut)(struct core_request *rq);   /* no fiber, and its time is over; NULL: nothing */
    /* Answers that its time is over while a thread still uses its memory; NULL, or false: it
     * cannot. */
    bool (*leave)(struct core_request *rq);
    struct fiber *fiber;                         /* while parked */
    struct task task;                            /* its next turn, while it is ready */
    struct core_request *next, *before;          /* all of the loop */
    void (*superseded)(struct core_request *rq); /* see request_on_superseded() */
    bool ready;                                  /* in the loop's list */
    bool running;                                /* its fiber has the thread */
    struct timer deadline;
    int64_t deadline_ms; /* monotonic; 0: none */
    bool timed_out;
    bool starved; /* JSON of its got no memory; see json_starves() */
    struct request_spent spent;
    struct failure failure;
    struct response response;
    json_t *body;                    /* checked; owned */
    json_t *warnings;                /* bb_warn(): array of texts, or NULL; owned */
    json_t *errors;                  /* found in the parts: array of objects, or NULL; owned */
    bool only_names_problems;        /* … and the handler runs to name those it finds, no more */
    const char *id;                  /* request id, for logs and error bodies */
    char trace[TRACE_PARENT_SIZE];   /* of what it calls in turn; "": see request_trace() */
    unsigned within;                 /* hooks within a transaction that run in each other */
    const char *hooked;              /* the event of the innermost one of them, or NULL */
    bool within_failed;              /* one did what it must not: its event is vetoed */
    bool committed;                  /* a transaction is, and the answer is its */
    bool unanswered;                 /* one is that gave no answer */
    unsigned open_units;             /* with statements, and not committed */
    struct idempotency *idempotency; /* NULL: the request has no Idempotency-Key */
    struct pg_tx *checked_out;       /* of a job: the connection for its transactions, or NULL */
    struct bb_tx *txs;               /* its units and open transactions, the newest first */
};

static inline struct core_request *request_of(struct bb_request *rq)
{
    return (struct core_request *)(void *)rq;
}

/*
 * A new request of `size` bytes, zeroed, beginning with a struct core_request; it lies in its own
 * arena and holds the generation. NULL: out of memory.
 */
void *request_make(size_t size, enum request_kind kind, struct loop *loop,
                   struct generation *generation);

/*
 * The second half of it, which cannot fail: rq lies zeroed in the arena, where another thread may
 * have put it. Loop's thread.
 */
void request_join(struct core_request *rq, struct arena *arena, enum request_kind kind,
                  struct loop *loop, struct generation *generation);

/* Frees it with all that it holds. */
void request_free(struct core_request *rq);

/* Its traceparent (base/trace.h): a new trace's where nothing has said in which one it runs. */
const char *request_trace(struct core_request *rq);

/* From here on the code of this module's handle runs: host and state of the public part. */
void request_enter(struct core_request *rq, struct bb_host *host);
/* bb_call_as() */
int api_call_as(struct bb_request *rq, struct bb_host *giver,
                int (*work)(struct bb_request *, void *), void *arg);

/* Starts entry(rq) on a fiber. true: it has ended, and ended(rq) has been called. */
bool request_start(struct core_request *rq);

/* Parks the fiber for so long, or until its time is over. */
void request_sleep(struct core_request *rq, int64_t ms);
/* The same, or until somebody sets *over and calls request_wake(). 0, or -1 at once: no memory. */
int request_sleep_unless(struct core_request *rq, int64_t ms, bool *over);

/* Whose fiber has the thread; NULL: none's. */
struct core_request *request_running(void);

/* Has reports of crashes and stalls name the request that runs. Once, before threads. */
void requests_report(void);

/* Starts it in this turn; from a fiber, where request_start() must not be called. */
void request_schedule(struct core_request *rq);

/* Waits until *done; -1 with FAILED_DEADLINE when the deadline came first. Fiber only. */
int request_wait(struct core_request *rq, const bool *done);

/* The same, and false then: no failure is recorded, for another thread may just record one. */
bool request_wait_in_time(struct core_request *rq, const bool *done);

/* The same, however long it takes: for what cannot be taken back. Fiber only. */
void request_wait_always(struct core_request *rq, const bool *done);

/* Lets a waiting request look at its flag. Loop's thread. */
void request_wake(struct core_request *rq);

/*
 * For requests that may last (streams): has superseded(rq) called once, on the loop's stack, when
 * another generation is live; at once if one is. It must not free the request, but is to see to it
 * that it ends soon: while it lives, so does its generation. What still lives `reload.drain`
 * seconds later is cut, without another word.
 */
void request_on_superseded(struct core_request *rq, void (*superseded)(struct core_request *rq));

/* On the loop: tells all its requests of this generation; ends them: their time is over. */
void requests_tell_superseded(struct loop *loop, const struct generation *generation);
void requests_cut(struct loop *loop, const struct generation *generation);

/* bb_scratch(). Fiber only. */
int request_scratch(struct core_request *rq, int (*work)(struct bb_request *, void *), void *arg);

/* Records a failure for bb_failed(). Returns -1. */
int request_fail(struct core_request *rq, enum failure_kind kind);

/*
 * Ends the request from however deep, for want of memory: with 503, or, after a transaction was
 * committed with an answer, with that answer. Fiber only.
 */
_Noreturn void request_out_of_memory(struct core_request *rq);

#endif
