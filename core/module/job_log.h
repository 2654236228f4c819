/*
 * Results of job runs, by name. They outlive generations, so that a reload does not forget the last
 * success of a job. Any thread.
 */
#ifndef CORE_JOB_LOG_H
#define CORE_JOB_LOG_H

#include "core/module/engine.h"

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

/*
 * Records the end of a run, which may have failed before it started. No effect if memory runs out.
 */
void job_log_note(struct engine *engine, const char *name, bool failed, int64_t us);

/*
 * Records that a run was skipped because another session, described by `holder`, has the job's
 * lock. Returns true for the first of consecutive skipped runs.
 */
bool job_log_skip(struct engine *engine, const char *name, const char *holder);

/* Copies the record with this index; false: there are no more. */
bool job_log_snapshot(struct engine *engine, size_t index, struct job_record *record);

/* Frees all records. Call when no job runs any more. */
void job_log_free(struct engine *engine);

#endif
