/*
 * The host's side of a request: a unit of work on a fiber of one loop. Each kind of request has a
 * struct that begins with this one: http_txn (http_txn.h) for HTTP, job_run, hook_run and
 * command_run for jobs, committed hooks and commands. Tasks of bb_run() and the checks of a
 * stream's token count as jobs.
 *
 * To wait, a function starts an operation and calls request_wait() with a flag; the code that
 * completes the operation sets the flag and calls request_wake(). The wait also ends at the
 * deadline. The function must then ensure that the operation, which may still be in progress, does
 * not use the request any more.
 */
#ifndef CORE_REQUEST_H
#define CORE_REQUEST_H

#include <busbar/busbar.h>

#include "core/lib/arena.h"
#include "core/lib/loop.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/module/generation.h"
#include "core/module/quota.h"

enum request_kind { REQUEST_HTTP = 1, REQUEST_JOB, REQUEST_HOOK, REQUEST_COMMAND };

enum failure_kind {
    FAILED_NOT,
    FAILED_SQL,         /* sqlstate has the reason */
    FAILED_UNAVAILABLE, /* a dependency is unavailable, or its response was lost */
    FAILED_BUSY,        /* a bounded queue is full */
    FAILED_SHARE,       /* the owner's share of a resource is used up; see quota.h */
    FAILED_DEADLINE,
    FAILED_MEMORY,
    FAILED_REFUSED, /* the host refused a module's call, and logged this */
    FAILED_ANSWERED /* a hook, a function of bb_before() or module_error() has answered */
};

struct failure {
    enum failure_kind kind;
    char sqlstate[6];
    char constraint[64];
    char text[160];             /* PostgreSQL's message; clients see it only for SQLSTATE BBnnn */
    const struct bb_sql *sql;   /* the failed statement; NULL: the commit */
    const struct bb_host *host; /* the module that sent it; NULL: the host */
    bool stale;             /* its prepared statement is gone, or no longer matches the tables */
    bool migration_running; /* an object is undefined, but the running migration may create it */
    bool logged;            /* it was logged already */
};

struct response_header {
    struct response_header *next;
    const char *name, *value;
};

struct response {
    int status;        /* 0: not answered yet */
    char *body;        /* from malloc(), or NULL */
    const char *fixed; /* static text, if there is no memory for `body`; or NULL */
    size_t length;
    int file; /* used instead of `body`: an owned descriptor of a file; 0: none */
    struct response_header *headers;
};

/* Where the time of a request was spent, in microseconds. */
struct request_spent {
    int64_t work_us;     /* processing by the host: from the start of its fibers to their end */
    int64_t queue_us;    /* part of work_us: waiting for a connection or a pool thread */
    int64_t database_us; /* part of work_us: waiting for PostgreSQL */
};

struct core_request {
    struct bb_request pub; /* first member: pointers to both are interchangeable */
    enum request_kind kind;
    const struct bb_route *route; /* HTTP: the matching route, or NULL */
    const char *name;             /* name of the job, the hook's event or the command; NULL: none */
    struct loop *loop;
    struct generation *generation; /* the request has a reference */
    struct quota_owner owner;      /* see quota.h */
    struct arena *arena;
    struct arena *saved_arena;   /* the request's own arena during bb_scratch(); otherwise NULL */
    struct request_guard *guard; /* the innermost bb_guard() or request_work(), or NULL */
    int work_status;             /* the result of request_work() */
    void (*entry)(struct core_request *rq); /* runs on the fiber */
    void (*ended)(struct core_request *rq); /* called on the loop's stack after the fiber's end */
    void (*cut)(struct core_request *rq);   /* ends a request while it has no fiber; or NULL */
    /* Called if the deadline passes while a pool thread still uses the request's memory: answers
     * the client at once, or returns false if that is impossible. NULL if no client waits. */
    bool (*answer_timeout)(struct core_request *rq);
    struct fiber *fiber;                         /* NULL before its first park and after its end */
    struct task task;                            /* continues the fiber when it is ready */
    LIST_ENTRY(core_request) link;               /* in the list of all requests of the loop */
    void (*superseded)(struct core_request *rq); /* see requests_tell_superseded() */
    bool ready;                                  /* is in the loop's list of ready tasks */
    bool yielded; /* bb_yield() has let other requests run at least once */
    bool running; /* its fiber is running */
    struct timer deadline;
    int64_t deadline_ms; /* monotonic; 0: none */
    bool timed_out;
    bool json_oom; /* memory ran out for JSON of this request; see json_set_oom_flag() */
    struct request_spent time_spent;
    struct account *account; /* of the module that its first fiber ran for; NULL: the host */
    int64_t charged_us;      /* monotonic time up to which its fiber's time was charged */
    size_t counted_bytes;    /* bytes of its arenas that are counted in `account` */
    struct failure failure;
    struct response response;
    json_t *body;                    /* checked; owned */
    json_t *warnings;                /* bb_warn(): array of texts, or NULL; owned */
    json_t *errors;                  /* problems in parts of a body: array, or NULL; owned */
    bool only_names_problems;        /* the handler runs only to find further problems */
    const char *id;                  /* request id, for logs and error bodies */
    char trace[TRACE_PARENT_SIZE];   /* see request_trace() */
    unsigned hook_depth;             /* number of nested hooks within a transaction */
    const char *hooked;              /* the event of the innermost hook, or NULL */
    bool within_failed;              /* a hook tried to wait, so its event is vetoed */
    bool committed;                  /* a transaction and its response are final */
    bool unanswered;                 /* a transaction was committed before a response was set */
    unsigned open_units;             /* units with statements that are not committed */
    struct idempotency *idempotency; /* NULL: the request has no Idempotency-Key */
    struct pg_tx *checked_out;       /* a job's connection for its transactions, or NULL */
    struct bb_tx *txs;               /* its units and open transactions, newest first */
    char *committing;                /* response body while bb_commit() commits; freed with rq */
};

static inline struct core_request *request_of(struct bb_request *rq)
{
    return (struct core_request *)(void *)rq;
}

/*
 * Creates a request of `size` bytes, zeroed, that begins with a struct core_request. Allocates it
 * in a new arena, and adds a reference to the generation. NULL: out of memory.
 */
void *request_make(size_t size, enum request_kind kind, struct loop *loop,
                   struct generation *generation);

/* Like request_make(), for zeroed memory `rq` in the arena `arena`. Cannot fail. */
void request_join(struct core_request *rq, struct arena *arena, enum request_kind kind,
                  struct loop *loop, struct generation *generation);

/* Frees the request and everything that it owns. */
void request_free(struct core_request *rq);

/* Returns the request's traceparent (text.h); creates one if none was set. */
const char *request_trace(struct core_request *rq);

/*
 * Call before code of another module runs; `host` is the module's handle, or NULL for busbar's own
 * code. Sets rq->pub.host and rq->pub.state. Charges the time until now to the previous module.
 */
void request_enter(struct core_request *rq, struct bb_host *host);

/*
 * Starts entry(rq) on a fiber, or continues the parked fiber. If the fiber has ended, calls
 * ended(rq) and returns true; if it has parked, returns false.
 */
bool request_start(struct core_request *rq);

/* Waits until *done, until `ms` milliseconds have passed, or until the deadline. Fiber only. */
void request_wait_for(struct core_request *rq, const bool *done, int64_t ms);

/* Returns the request whose fiber is running on this thread; NULL: none. */
struct core_request *request_running(void);

/* Describes the running request for activity_source(); returns false if none runs. Signal-safe. */
bool request_describe(struct activity *running);

/* Makes the loop start or continue the request; jobs may wait longer. Loop's thread. */
void request_schedule(struct core_request *rq);

/* Waits until *done; returns -1 with FAILED_DEADLINE if the deadline passes before. Fiber only. */
int request_wait(struct core_request *rq, const bool *done);

/* Like request_wait(), but returns *done, and never sets rq->failure: a pool thread may set it. */
bool request_wait_in_time(struct core_request *rq, const bool *done);

/* Makes a waiting request check its flag. Loop's thread. */
void request_wake(struct core_request *rq);

/*
 * Calls rq->superseded, if it is set, once for each of the loop's requests of the generation. The
 * callback must make the request end soon, because the request keeps its generation loaded; it must
 * not free the request. Loop's thread.
 */
void requests_tell_superseded(struct loop *loop, const struct generation *generation);

/* Ends this loop's requests of the generation, as if their deadline had passed. Loop's thread. */
void requests_cut(struct loop *loop, const struct generation *generation);

/* Does the same to this loop's requests with this function `ended`. Loop's thread. */
void requests_cut_ended(struct loop *loop, void (*ended)(struct core_request *));

/*
 * request_alloc() returns zeroed memory of the request; request_defer() makes request_free() call
 * undo(arg). On lack of memory both end the request, request_defer() after undo(arg). Fiber only.
 */
void *request_alloc(struct core_request *rq, size_t size);
void request_defer(struct core_request *rq, void (*undo)(void *), void *arg);

/* Calls the function of bb_transaction(). Returns its result, or the status passed to bb_end(). */
int request_work(struct core_request *rq, struct bb_tx *tx,
                 int (*work)(struct bb_request *, struct bb_tx *, void *), void *arg);

/* Records a failure for bb_failed(). Returns -1. */
int request_fail(struct core_request *rq, enum failure_kind kind);

/*
 * Call when memory runs out, at any depth of calls. Answers with 503, unless a commit has already
 * set the response. Ends the fiber, or within bb_guard() makes bb_guard() return -1. Fiber only.
 */
_Noreturn void request_out_of_memory(struct core_request *rq);

#endif
