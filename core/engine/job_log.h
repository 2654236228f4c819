/*
 * What became of the runs of jobs, by name: it outlives generations, so that a reload does not
 * forget when a job last went well. Any thread.
 */
#ifndef CORE_JOB_LOG_H
#define CORE_JOB_LOG_H

#include "core/engine/engine.h"

enum { JOB_NAME_SIZE = 64, JOB_HOLDER_SIZE = 128 };

struct job_record {
    char name[JOB_NAME_SIZE];
    uint64_t done, failed;     /* runs of this host */
    uint64_t skipped;          /* runs that did not begin because another session had the lock */
    int64_t last_done_wall_ms; /* 0: never */
    int64_t skipped_since_wall_ms; /* the first of these in a row; 0: the last run was not one */
    char lock_holder[JOB_HOLDER_SIZE]; /* the session that had the lock last; "": not known */
    int64_t last_us;                   /* how long the last run took */
};

/* Notes the end of a run, which may have failed before it began; without memory nothing. */
void job_log_note(struct engine *engine, const char *name, bool failed, int64_t us);

/*
 * Notes that a run was skipped because another session has the job's lock; `holder` says which one.
 * True for the first one in a row.
 */
bool job_log_skip(struct engine *engine, const char *name, const char *holder);

/* Copies the record at this place; false: there are no more. */
bool job_log_look(struct engine *engine, size_t index, struct job_record *record);

/* Frees all, when no job runs any more. */
void job_log_free(struct engine *engine);

#endif
