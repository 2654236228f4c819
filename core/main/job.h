/*
 * Runs the periodic jobs of a generation's modules and of the host. A job's name determines its
 * loop. A job with BB_ONCE runs on one host of a cluster at a time: each run holds a PostgreSQL
 * advisory lock. First runs are spread over time, so that not all run at once.
 */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include "core/module/engine.h"

/*
 * Creates the jobs of a generation; none is scheduled. NULL: out of memory. Free them with free(),
 * after jobs_end() on all loops and the last run.
 */
struct jobs *jobs_new(struct engine *engine, struct generation *generation);

/* Schedules the loop's jobs; jobs that are also in `before` keep their due time. Loop's thread. */
void jobs_begin(struct jobs *jobs, const struct jobs *before, struct loop *loop);

/* Clears the timers of the loop's jobs. A running job continues to its end. Loop's thread. */
void jobs_end(struct jobs *jobs, struct loop *loop);

/* Ends the loop's running jobs, as if their deadline had passed. Loop's thread. */
void jobs_cut(struct loop *loop);

/*
 * Starts the jobs of the live generation that have this name; a running job starts again when its
 * run ends. Returns whether such jobs exist. Call engine_hold() before. Any thread.
 */
bool jobs_call(struct engine *engine, const char *name);

/*
 * The results of all runs of jobs with the same name. They outlive generations, so that a reload
 * does not lose them. Any thread.
 */

enum { JOB_NAME_SIZE = 64, JOB_HOLDER_SIZE = 128 };

struct job_record {
    struct job_record *next; /* engine->lock protects the list and its records */
    char name[JOB_NAME_SIZE];
    uint64_t done, failed;     /* runs on this host */
    uint64_t skipped;          /* runs that did not start because another session had the lock */
    int64_t last_done_wall_ms; /* 0: never */
    /* time of the first of consecutive skipped runs; 0: the last run was not skipped */
    int64_t skipped_since_wall_ms;
    char lock_holder[JOB_HOLDER_SIZE]; /* the session that had the lock last; "": unknown */
    int64_t last_us;                   /* duration of the last run */
};

/* Copies the record with this index; returns false after the last one. */
bool job_log_snapshot(struct engine *engine, size_t index, struct job_record *record);

/* Frees all records. Call when no job runs any more. */
void job_log_free(struct engine *engine);

#endif
