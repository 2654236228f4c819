/*
 * Periodic jobs of a generation's modules and of the host, each on a loop that is determined by its
 * name. A job with BB_ONCE runs on one host of a cluster at a time: it holds an advisory lock on a
 * checked out connection while it runs. First runs are spread over time, so that jobs do not all
 * run at once.
 */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include "core/module/engine.h"

/* Creates the jobs of a generation; none is scheduled. NULL: out of memory. */
struct jobs *jobs_new(struct engine *engine, struct generation *generation);

/* On the loop: schedules its jobs. Jobs that `before` (or NULL) also has keep their due time. */
void jobs_begin(struct jobs *jobs, const struct jobs *before, struct loop *loop);

/*
 * On the loop: cancels the schedule of its jobs. A running job continues, and keeps its generation
 * loaded.
 */
void jobs_end(struct jobs *jobs, struct loop *loop);

/* Schedules another run right after the current run. */
void api_again(struct bb_request *rq);

/* Call after jobs_end() on all loops and the last run. Any thread. */
void jobs_free(struct jobs *jobs);

/*
 * Results of runs, by name. They outlive generations, so that a reload does not forget the last
 * success of a job. Any thread.
 */

enum { JOB_NAME_SIZE = 64, JOB_HOLDER_SIZE = 128 };

struct job_record {
    char name[JOB_NAME_SIZE];
    uint64_t done, failed;     /* runs on this host */
    uint64_t skipped;          /* runs that did not start because another session had the lock */
    int64_t last_done_wall_ms; /* 0: never */
    int64_t skipped_since_wall_ms;     /* the first of consecutive skipped runs; 0: the last run was
                                        * not skipped */
    char lock_holder[JOB_HOLDER_SIZE]; /* the session that had the lock last; "": unknown */
    int64_t last_us;                   /* duration of the last run */
};

/* Copies the record with this index; false: there are no more. */
bool job_log_snapshot(struct engine *engine, size_t index, struct job_record *record);

/* Frees all records. Call when no job runs any more. */
void job_log_free(struct engine *engine);

#endif
