#include "core/main/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/module/pool.h"
#include "core/module/request.h"
#include "core/store/sql.h"

/* ---- results of runs ---- */

/* Finds or adds the record with this name. Call with engine->lock locked. NULL: no memory. */
static struct job_record *job_log_record_of(struct engine *engine, const char *name)
{
    struct job_record **at = &engine->job_log;
    char label[JOB_NAME_SIZE];

    snprintf(label, JOB_NAME_SIZE, "%s", name); /* the loop below makes it a valid metric label */
    for (char *c = label; *c; c++)
        if (*c == '"' || *c == '\\' || *c == '\n')
            *c = '_';
    while (*at && strcmp((*at)->name, label) != 0)
        at = &(*at)->next;
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (*at)
            memcpy((*at)->name, label, sizeof label);
    }
    return *at;
}

bool job_log_snapshot(struct engine *engine, size_t index, struct job_record *record)
{
    BB_LOCKED(&engine->lock);
    const struct job_record *at = engine->job_log;

    while (at && index--)
        at = at->next;
    if (at)
        *record = *at;
    return at != NULL;
}

void job_log_free(struct engine *engine)
{
    while (engine->job_log) {
        struct job_record *first = engine->job_log;

        engine->job_log = first->next;
        free(first);
    }
}

/* ---- runs ---- */

enum {
    FIRST_MS = 5000,
    PAUSED_MS = 1000, /* time between two checks whether the host is still paused */
    APART_MS = 500,   /* time between the first runs of two jobs */
    DEADLINE_MS = 10 * 60 * 1000
};

struct job {
    struct timer timer; /* must be first */
    struct loop *loop;
    struct generation *generation; /* not a reference: the generation frees the job */
    const struct bb_job *descriptor;
    struct bb_host *host;  /* NULL: a job of the host */
    size_t index;          /* among the jobs of the generation */
    struct message called; /* by which jobs_call() starts the job on its loop */
    atomic_bool posted;    /* `called` was posted and has not run: it owns a generation reference */
    bool running;
    bool again;  /* bb_again() or jobs_call() has asked for a further run */
    bool paused; /* the job did not run because the host was paused */
};

struct jobs {
    struct generation *generation;
    size_t count;
    struct job list[];
};

struct job_run {
    struct core_request rq; /* must be first */
    struct job *job;
    int64_t began_us; /* 0: the function of the job was not called */
};

static const struct bb_sql lock = {"SELECT got, holder FROM busbar_job_lock($1)", 0};
static const struct bb_sql unlock = {"SELECT pg_advisory_unlock(hashtextextended($1, 0))", 0};

static void job_expire_idempotency(struct bb_request *rq)
{
    idempotency_expire(request_of(rq));
}

static const struct bb_job own_job = {"busbar.idempotency", 3600, BB_ONCE, job_expire_idempotency};

/*
 * The job's transactions use the connection that holds the lock. With separate connections, jobs
 * could wait for each other's connections, and a job could commit after it has lost the lock.
 */
static void job_entry(struct core_request *rq)
{
    struct job_run *run = (struct job_run *)(void *)rq;
    const struct bb_job *job = run->job->descriptor;

    if (!(job->flags & BB_ONCE)) {
        run->began_us = clock_mono_us();
        job->run(&rq->pub);
        return;
    }
    struct pg_tx *tx = pg_tx_begin(rq);

    if (!tx)
        return;
    /* if memory runs out in job->run(), it does not return: the arena calls pg_tx_drop() later */
    if (arena_defer(rq->arena, pg_tx_drop, tx)) {
        pg_tx_end(tx);
        return;
    }
    const struct bb_rows *got = pg_tx_run(tx, &lock, BB_ARGS(bb_t(job->name)));
    const char *holder = got ? api_rows_text(got, 0, 1) : NULL;

    if (got && !strcmp(api_rows_text(got, 0, 0), "t")) {
        run->began_us = clock_mono_us();
        rq->checked_out = tx;
        job->run(&rq->pub);
        rq->checked_out = NULL;
        pg_tx_run(tx, &unlock, BB_ARGS(bb_t(job->name)));
    } else if (holder) {
        struct engine *engine = rq->loop->engine;

        pthread_mutex_lock(&engine->lock);
        struct job_record *record = job_log_record_of(engine, rq->name);
        bool first = record && !record->skipped_since_wall_ms;

        if (record) {
            record->skipped++;
            snprintf(record->lock_holder, sizeof record->lock_holder, "%s", holder);
        }
        if (first)
            record->skipped_since_wall_ms = clock_wall_ms();
        pthread_mutex_unlock(&engine->lock);
        if (first)
            log_line(BB_DEBUG, "job skipped: another session holds its lock", "job", rq->name,
                     "holder", holder, NULL);
    }
    pg_tx_end(tx);
}

/*
 * Makes a job start again at once after a run that asked for it. After jobs_end(), the live
 * generation may have a job with this name: then that one starts.
 */
static void job_repeat(struct job *job)
{
    struct engine *engine = job->loop->engine;

    if (job->timer.node.set) {
        timer_set(&job->loop->timers, &job->timer, job->loop->now_ms);
    } else if (!engine_hold(engine)) {
        jobs_call(engine, job->descriptor->name);
        engine_unhold(engine);
    }
}

/* Records the result of a run. */
static void job_ended(struct core_request *rq)
{
    const struct job_run *run = (struct job_run *)(void *)rq;
    struct job *job = run->job;
    struct engine *engine = rq->loop->engine;
    bool failed = rq->failure.kind || rq->response.status >= 500;

    pthread_mutex_lock(&engine->lock);
    /* a job that gets no database connection has failed, although it has not begun */
    struct job_record *record =
        run->began_us || failed ? job_log_record_of(engine, job->descriptor->name) : NULL;

    if (record) {
        record->last_us = run->began_us ? clock_mono_us() - run->began_us : 0;
        record->failed += failed;
        record->done += !failed;
        if (!failed)
            record->last_done_wall_ms = clock_wall_ms();
        if (run->began_us)
            record->skipped_since_wall_ms = 0;
    }
    pthread_mutex_unlock(&engine->lock);
    job->running = false;
    if (job->again)
        job_repeat(job);
    request_free(rq);
}

/* Makes the job of this run start again as soon as the run has ended. */
void api_again(struct bb_request *pub)
{
    struct core_request *rq = request_of(pub);

    if (rq->ended == job_ended)
        ((struct job_run *)(void *)rq)->job->again = true;
}

static void job_start(struct job *job)
{
    struct job_run *run = request_make(sizeof *run, REQUEST_JOB, job->loop, job->generation);

    if (!run) {
        log_line(BB_ERROR, "cannot run a job: out of memory", "job", job->descriptor->name, NULL);
        return;
    }
    run->job = job;
    run->rq.name = job->descriptor->name;
    run->rq.entry = job_entry;
    run->rq.ended = job_ended;
    run->rq.deadline_ms = job->loop->now_ms + DEADLINE_MS;
    request_enter(&run->rq, job->host);
    job->running = true;
    job->again = false;
    request_schedule(&run->rq);
}

void jobs_cut(struct loop *loop)
{
    requests_cut_ended(loop, job_ended);
}

static int64_t job_period_of(const struct job *job)
{
    return (int64_t)job->descriptor->every_s * 1000;
}

/* Returns how many ms after the first job this job starts, to spread the load of the database. */
static int64_t job_apart(const struct job *job)
{
    return (int64_t)(job->index * APART_MS) % job_period_of(job);
}

/* Starts a job. After a pause of the host, when all jobs are due, first waits job_apart(). */
static void job_timer(struct timer *timer)
{
    struct job *job = (struct job *)(void *)timer;
    bool paused = pause_holds(job->loop->engine), resumed = job->paused && !paused;

    job->paused = paused;
    if (paused) {
        timer_set(&job->loop->timers, timer, timer_beat(job->loop->now_ms, PAUSED_MS));
        return;
    }
    if (resumed && job_apart(job)) {
        timer_set(&job->loop->timers, timer, job->loop->now_ms + job_apart(job));
        return;
    }
    if (!job->running)
        job_start(job);
    int64_t next_ms = job->loop->now_ms + job_period_of(job);

    /* rounded to a multiple of APART_MS, so that the processor wakes once for several jobs */
    timer_set(&job->loop->timers, timer, timer_beat(next_ms - APART_MS, APART_MS));
}

/* Starts the job for jobs_call(). */
static void job_called(struct message *message)
{
    struct job *job = BB_CONTAINER_OF(message, struct job, called);

    atomic_store(&job->posted, false);
    job->again = true; /* makes a running job run again; otherwise job_start() clears `again` */
    if (!job->running && job->timer.node.set)
        timer_set(&job->loop->timers, &job->timer, job->loop->now_ms);
    generation_release(job->generation);
}

static void job_add(struct jobs *jobs, struct engine *engine, const struct bb_job *descriptor,
                    struct bb_host *host)
{
    size_t index = jobs->count++;
    struct job *job = &jobs->list[index];
    unsigned sum = 0; /* hash of the name: a job has the same loop in all generations */

    for (const char *c = descriptor->name; *c; c++)
        sum = sum * 31 + (unsigned char)*c;
    *job = (struct job){.timer.fire = job_timer,
                        .called.run = job_called,
                        .index = index,
                        .loop = &engine->loops[sum % engine->loop_count],
                        .generation = jobs->generation,
                        .descriptor = descriptor,
                        .host = host};
}

struct jobs *jobs_new(struct engine *engine, struct generation *generation)
{
    size_t count = 1;

    for (size_t i = 0; i < generation->module_count; i++)
        count += generation->modules[i].descriptor->jobs.count;
    struct jobs *jobs = calloc(1, sizeof *jobs + count * sizeof jobs->list[0]);

    if (!jobs)
        return NULL;
    jobs->generation = generation;
    job_add(jobs, engine, &own_job, NULL);
    for (size_t i = 0; i < generation->module_count; i++) {
        struct core_module *module = &generation->modules[i];

        MODULE_EACH (bb_job, row, module->descriptor->jobs)
            job_add(jobs, engine, row, &module->handle.host);
    }
    return jobs;
}

void jobs_begin(struct jobs *jobs, const struct jobs *before, struct loop *loop)
{
    for (size_t i = 0; i < jobs->count; i++) {
        struct job *job = &jobs->list[i];
        const struct job *same = NULL;
        int64_t every = job_period_of(job), latest = loop->now_ms + every;
        int64_t first = loop->now_ms + (every < FIRST_MS ? every : FIRST_MS) + job_apart(job);

        if (job->loop != loop)
            continue;
        for (size_t k = 0; before && k < before->count && !same; k++)
            if (!strcmp(before->list[k].descriptor->name, job->descriptor->name))
                same = &before->list[k];
        /* keeps the due time, so that frequent reloads do not change how often the job runs */
        if (same && same->timer.node.set)
            first = same->timer.node.at_ms < latest ? same->timer.node.at_ms : latest;
        if (job->again) /* jobs_call() was called before this function */
            first = loop->now_ms;
        job->paused = same && same->paused;
        timer_set(&loop->timers, &job->timer, first);
    }
}

void jobs_end(struct jobs *jobs, struct loop *loop)
{
    for (size_t i = 0; i < jobs->count; i++) {
        if (jobs->list[i].loop == loop)
            timer_clear(&loop->timers, &jobs->list[i].timer);
    }
}

/* ---- running a job now ---- */

bool jobs_call(struct engine *engine, const char *name)
{
    struct generation *g = engine_generation(engine);
    bool found = false;

    for (size_t i = 0; i < g->jobs->count; i++) {
        struct job *job = &g->jobs->list[i];

        if (strcmp(job->descriptor->name, name) != 0)
            continue;
        found = true;
        if (atomic_exchange(&job->posted, true))
            continue;
        generation_acquire(g);
        loop_post(job->loop, &job->called);
    }
    generation_release(g);
    return found;
}

/* ---- bb_run() and bb_run_then(): pass work from any thread to a loop ---- */

enum { RUN_DEADLINE_MS = 60000 };

/*
 * A call of bb_run(). The calling thread allocates everything, so that the loop can start the call
 * without allocating memory. Owns a reference to the generation.
 */
struct run {
    struct core_request rq; /* must be first */
    struct message message;
    struct arena *arena;
    struct loop *loop;
    struct bb_host *host;
    void (*work)(struct bb_request *, void *);
    void (*then)(void *, bool); /* NULL: bb_run() was called */
    void *arg;
    bool whole; /* `work` has returned */
};

static void run_entry(struct core_request *rq)
{
    struct run *run = (struct run *)(void *)rq;

    run->work(&rq->pub, run->arg);
    run->whole = true;
}

static void run_ended(struct core_request *rq)
{
    const struct run run = *(struct run *)(void *)rq;

    request_free(rq);
    if (run.then)
        run.then(run.arg, run.whole);
    generation_release(handle_of(run.host)->generation);
}

static void run_begin(struct message *message)
{
    struct run *run = BB_CONTAINER_OF(message, struct run, message);

    request_join(&run->rq, run->arena, REQUEST_JOB, run->loop, handle_of(run->host)->generation);
    run->rq.name = "bb_run()";
    run->rq.entry = run_entry;
    run->rq.ended = run_ended;
    run->rq.deadline_ms = run->loop->now_ms + RUN_DEADLINE_MS;
    request_enter(&run->rq, run->host);
    request_schedule(&run->rq);
}

int api_run_then(struct bb_host *host, void (*work)(struct bb_request *, void *),
                 void (*then)(void *, bool), void *arg)
{
    struct generation *generation = handle_of(host)->generation;
    struct engine *engine = generation->engine;
    struct arena *arena = engine ? arena_new() : NULL;
    struct run *run = arena ? arena_alloc(arena, sizeof *run) : NULL;

    if (!run) {
        arena_free(arena);
        return -1;
    }
    run->message.run = run_begin;
    run->arena = arena;
    run->host = host;
    run->work = work;
    run->then = then;
    run->arg = arg;
    generation_acquire(generation);
    BB_LOCKED(&engine->lock);
    /* loops take turns; while the host stops, the first loop gets all work: it ends last */
    unsigned turn = engine->stopping ? 0 : engine->next_loop++ % engine->loop_count;

    run->loop = &engine->loops[turn];
    loop_post(run->loop, &run->message);
    return 0;
}

int api_run(struct bb_host *host, void (*work)(struct bb_request *, void *), void *arg)
{
    return api_run_then(host, work, NULL, arg);
}
