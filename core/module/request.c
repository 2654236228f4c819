#include "core/module/request.h"

#include <setjmp.h>
#include <stdlib.h>

#include "core/lib/fiber.h"
#include "core/lib/json.h"
#include "core/module/reply.h"

enum { YIELD_US = 500 };

static void request_deadline_fire(struct timer *timer)
{
    struct core_request *rq = BB_CONTAINER_OF(timer, struct core_request, deadline);

    rq->timed_out = true;
    request_wake(rq);
}

void *request_make(size_t size, enum request_kind kind, struct loop *loop,
                   struct generation *generation)
{
    struct arena *arena = arena_new();
    struct core_request *rq = arena ? arena_alloc(arena, size) : NULL;

    if (!rq) {
        arena_free(arena);
        return NULL;
    }
    request_join(rq, arena, kind, loop, generation);
    return rq;
}

void request_join(struct core_request *rq, struct arena *arena, enum request_kind kind,
                  struct loop *loop, struct generation *generation)
{
    rq->arena = arena;
    rq->pub.size = sizeof rq->pub;
    rq->pub.api = generation->api;
    rq->kind = kind;
    rq->loop = loop;
    rq->generation = generation;
    rq->deadline.fire = request_deadline_fire;
    generation_acquire(generation);
    LIST_INSERT_HEAD(&loop->alive, rq, link);
    loop->requests++;
}

const char *request_trace(struct core_request *rq)
{
    if (!*rq->trace)
        trace_parent(NULL, rq->trace);
    return rq->trace;
}

void request_free(struct core_request *rq)
{
    struct generation *generation = rq->generation;
    struct loop *loop = rq->loop;

    account_add(rq->account, ACCOUNT_QUEUE_US, rq->time_spent.queue_us);
    timer_clear(&loop->timers, &rq->deadline);
    LIST_REMOVE(rq, link);
    json_decref(rq->body);
    json_decref(rq->warnings);
    json_decref(rq->errors);
    reply_drop(rq);
    free(rq->committing);
    struct arena *own = rq->saved_arena ? rq->saved_arena : rq->arena;

    if (rq->saved_arena) /* memory ran out within bb_scratch() */
        arena_free(rq->arena);
    arena_free(own);
    loop->requests--;
    generation_release(generation);
}

/*
 * Charges the module that has run since `charged_us` for this time. The fiber used the processor
 * all the time, or blocked the loop, which is as bad. Unlike the thread's processor time, the
 * monotonic clock is read without a system call.
 */
static void request_charge(struct core_request *rq)
{
    int64_t now_us = clock_mono_us();

    account_add(account_of(rq->pub.host), ACCOUNT_CPU_US, now_us - rq->charged_us);
    rq->charged_us = now_us;
}

void request_enter(struct core_request *rq, struct bb_host *host)
{
    if (rq->running && host != rq->pub.host)
        request_charge(rq);
    rq->pub.host = host;
    rq->pub.state = host ? host->state : NULL;
}

int api_call_as(struct bb_request *pub, struct bb_host *giver,
                int (*work)(struct bb_request *, void *), void *arg)
{
    struct core_request *rq = request_of(pub);
    struct bb_host *caller = pub->host;

    request_enter(rq, giver);
    int status = work(pub, arg);

    request_enter(rq, caller);
    return status;
}

int api_scratch(struct bb_request *pub, int (*work)(struct bb_request *, void *), void *arg)
{
    struct core_request *rq = request_of(pub);
    struct response_header *headers = rq->response.headers;

    if (rq->saved_arena)
        return work(pub, arg);
    struct arena *arena = arena_new();

    if (!arena)
        request_out_of_memory(rq);
    rq->saved_arena = rq->arena;
    rq->arena = arena;
    int status = work(pub, arg);

    rq->arena = rq->saved_arena;
    rq->saved_arena = NULL;
    rq->response.headers = headers;
    arena_free(arena);
    return status;
}

static _Thread_local struct core_request *at_work;

struct core_request *request_running(void)
{
    return at_work;
}

bool request_describe(struct activity *running)
{
    static const char *const kinds[] = {
        [REQUEST_HTTP] = "handler",
        [REQUEST_JOB] = "job",
        [REQUEST_HOOK] = "committed hook",
        [REQUEST_COMMAND] = "command",
    };
    const struct core_request *rq = at_work;

    if (!rq)
        return false;
    const struct bb_host *host = rq->pub.host;

    *running = (struct activity){.module = host ? host->module->name : NULL,
                                 .kind = rq->hooked ? "hook" : kinds[rq->kind],
                                 .name = rq->hooked ? rq->hooked : rq->name,
                                 .request = rq->id};
    if (rq->route && !rq->hooked) {
        running->name = NULL;
        running->method = rq->route->method;
        running->path = rq->route->path;
    }
    return true;
}

static void request_fiber_entry(void *arg)
{
    struct core_request *rq = arg;

    rq->entry(rq);
}

bool request_start(struct core_request *rq)
{
    bool *before = json_set_oom_flag(&rq->json_oom);

    if (!rq->account)
        rq->account = account_of(rq->pub.host);
    rq->running = true;
    at_work = rq;
    rq->charged_us = clock_mono_us();
    if (rq->fiber && fiber_resume(rq->fiber))
        rq->fiber = NULL;
    else if (!rq->fiber && fiber_start(request_fiber_entry, rq, &rq->fiber))
        reply_failure(rq, FAILED_MEMORY);
    request_charge(rq);
    rq->running = false;
    at_work = NULL;
    json_set_oom_flag(before);
    size_t bytes = rq->fiber ? arena_size(rq->arena) : 0;

    if (rq->fiber && rq->saved_arena)
        bytes += arena_size(rq->saved_arena);
    account_add(rq->account, ACCOUNT_MEMORY, (int64_t)(bytes - rq->counted_bytes));
    rq->counted_bytes = bytes;
    if (rq->fiber)
        return false;
    rq->ended(rq);
    return true;
}

static void request_run_task(struct task *task)
{
    struct core_request *rq = BB_CONTAINER_OF(task, struct core_request, task);

    rq->ready = false;
    request_start(rq);
}

/* Parks until one of the flags is set, or the deadline passes. */
static void request_park(struct core_request *rq, const bool *done, const bool *over)
{
    if (rq->deadline_ms && !rq->deadline.node.set && !rq->timed_out)
        timer_set(&rq->loop->timers, &rq->deadline, rq->deadline_ms);
    while (!*done && !*over && !rq->timed_out)
        fiber_park();
}

bool request_wait_in_time(struct core_request *rq, const bool *done)
{
    request_park(rq, done, done);
    return *done;
}

int request_wait(struct core_request *rq, const bool *done)
{
    return request_wait_in_time(rq, done) ? 0 : request_fail(rq, FAILED_DEADLINE);
}

struct request_limit {
    struct timer timer;
    struct core_request *rq;
    bool over;
};

static void request_limit_over(struct timer *timer)
{
    struct request_limit *limit = BB_CONTAINER_OF(timer, struct request_limit, timer);

    limit->over = true;
    request_wake(limit->rq);
}

void request_wait_for(struct core_request *rq, const bool *done, int64_t ms)
{
    struct loop *loop = rq->loop;
    struct request_limit limit = {.timer.fire = request_limit_over, .rq = rq};
    int64_t longest = INT64_MAX - loop->now_ms;

    timer_set(&loop->timers, &limit.timer, loop->now_ms + (ms < longest ? ms : longest));
    request_park(rq, done, &limit.over);
    timer_clear(&loop->timers, &limit.timer);
}

void request_wake(struct core_request *rq)
{
    if (!rq->ready && !rq->running && rq->fiber)
        request_schedule(rq);
}

void request_schedule(struct core_request *rq)
{
    rq->ready = true;
    rq->task = (struct task){.run = request_run_task, .patient = rq->kind == REQUEST_JOB};
    loop_schedule(rq->loop, &rq->task);
}

void api_yield_now(struct bb_request *pub)
{
    struct core_request *rq = request_of(pub);

    if (rq->hook_depth || clock_mono_us() - rq->charged_us < YIELD_US)
        return;
    rq->ready = true;
    /* requests that have yielded before run first, so that few of them use memory at a time */
    rq->task = (struct task){.run = request_run_task, .patient = true, .first = rq->yielded};
    rq->yielded = true;
    loop_schedule(rq->loop, &rq->task);
    fiber_park();
}

void requests_tell_superseded(struct loop *loop, const struct generation *generation)
{
    for (struct core_request *rq = LIST_FIRST(&loop->alive); rq; rq = LIST_NEXT(rq, link)) {
        void (*superseded)(struct core_request *) = rq->superseded;

        if (!superseded || rq->generation != generation)
            continue;
        rq->superseded = NULL;
        superseded(rq);
    }
}

static void request_cut(struct core_request *rq)
{
    rq->timed_out = true;
    if (rq->fiber)
        request_wake(rq);
    else if (rq->cut)
        rq->cut(rq);
}

void requests_cut(struct loop *loop, const struct generation *generation)
{
    for (struct core_request *rq = LIST_FIRST(&loop->alive); rq; rq = LIST_NEXT(rq, link))
        if (rq->generation == generation)
            request_cut(rq);
}

void requests_cut_ended(struct loop *loop, void (*ended)(struct core_request *))
{
    for (struct core_request *rq = LIST_FIRST(&loop->alive); rq; rq = LIST_NEXT(rq, link))
        if (rq->ended == ended && !rq->timed_out)
            request_cut(rq);
}

int request_fail(struct core_request *rq, enum failure_kind kind)
{
    rq->failure = (struct failure){.kind = kind};
    return -1;
}

struct request_guard {
    jmp_buf place;
    struct request_guard *outer;
    bool work; /* created by request_work(), not by bb_guard() */
};

int api_guard(struct bb_request *pub, void (*work)(struct bb_request *, void *), void *arg)
{
    struct core_request *rq = request_of(pub);
    struct request_guard guard = {.outer = rq->guard};
    struct bb_host *volatile host = rq->pub.host; /* volatile: kept after longjmp() */

    if (setjmp(guard.place)) { /* request_leave() has jumped here */
        rq->guard = guard.outer;
        request_enter(rq, host);
        return -1;
    }
    rq->guard = &guard;
    work(pub, arg);
    rq->guard = guard.outer;
    return 0;
}

int request_work(struct core_request *rq, struct bb_tx *tx,
                 int (*work)(struct bb_request *, struct bb_tx *, void *), void *arg)
{
    struct request_guard guard = {.outer = rq->guard, .work = true};
    struct bb_host *volatile host = rq->pub.host; /* volatile as in api_guard() */

    rq->guard = &guard;
    if (!setjmp(guard.place)) /* otherwise bb_end() has jumped here */
        rq->work_status = work(&rq->pub, tx, arg);
    rq->guard = guard.outer;
    request_enter(rq, host);
    return rq->work_status;
}

/* Continues in bb_guard(), or ends the request's fiber. */
static _Noreturn void request_leave(struct core_request *rq)
{
    for (struct request_guard *guard = rq->guard; guard; guard = guard->outer)
        if (!guard->work)
            longjmp(guard->place, 1);
    fiber_exit();
}

void api_end(struct bb_request *pub, int status)
{
    struct core_request *rq = request_of(pub);

    if (rq->guard && rq->guard->work) {
        rq->work_status = status;
        longjmp(rq->guard->place, 1);
    }
    module_error_check_answer(rq, status);
    request_leave(rq);
}

void *request_alloc(struct core_request *rq, size_t size)
{
    void *memory = arena_alloc(rq->arena, size);

    if (!memory)
        request_out_of_memory(rq);
    return memory;
}

void request_defer(struct core_request *rq, void (*undo)(void *), void *arg)
{
    if (!arena_defer(rq->arena, undo, arg))
        return;
    undo(arg);
    request_out_of_memory(rq);
}

void request_out_of_memory(struct core_request *rq)
{
    request_fail(rq, FAILED_MEMORY);
    if (!rq->committed ||
        rq->kind != REQUEST_HTTP) /* otherwise the client must get the response of the commit */
        reply_failed(rq);
    request_leave(rq);
}

/*
 * ---- completions, which a request waits for and another thread signals ----
 *
 * A completion has two references, the request's and the signaling thread's; both are released on
 * the request's loop, so no lock is needed.
 */

struct bb_completion {
    struct message message;  /* first member */
    struct core_request *rq; /* NULL: the request no longer waits */
    struct loop *loop;
    bool waited; /* a second wait is not allowed */
    bool open;
};

static void request_completion_signaled(struct message *message)
{
    struct bb_completion *completion = (struct bb_completion *)(void *)message;

    if (!completion->rq) {
        free(completion);
        return;
    }
    completion->open = true;
    request_wake(completion->rq);
}

/* Drops the request's reference. If the completion is not signaled yet, the signal frees it. */
static void request_completion_leave(void *arg)
{
    struct bb_completion *completion = arg;

    completion->rq = NULL;
    if (completion->open)
        free(completion);
}

struct bb_completion *api_completion(struct bb_request *pub)
{
    struct core_request *rq = request_of(pub);
    struct bb_completion *completion = calloc(1, sizeof *completion);

    if (!completion)
        return NULL;
    completion->message.run = request_completion_signaled;
    completion->rq = rq;
    completion->loop = rq->loop;
    if (!arena_defer(rq->arena, request_completion_leave, completion))
        return completion;
    free(completion);
    return NULL;
}

int api_completion_wait(struct bb_request *pub, struct bb_completion *completion,
                        int64_t timeout_ms)
{
    struct core_request *rq = request_of(pub);

    if (module_error_waits(rq, "bb_completion_wait()"))
        return -1;
    if (!completion || completion->waited || completion->rq != rq) {
        module_error(rq,
                     "module waited for a completion twice, or for a completion of another request",
                     NULL);
        return -1;
    }
    completion->waited = true;
    request_wait_for(rq, &completion->open, timeout_ms);
    return completion->open ? 0 : request_fail(rq, FAILED_DEADLINE);
}

void api_completion_signal(struct bb_completion *completion)
{
    loop_post(completion->loop, &completion->message);
}
