#include "core/module/job_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/text.h"

struct job_log {
    struct job_log *next;
    struct job_record record;
};

/*
 * Returns the record with that name; creates it at the end if necessary. Under the lock. NULL: out
 * of memory.
 */
static struct job_record *job_log_record_of(struct engine *engine, const char *name)
{
    struct job_log **at = &engine->job_log;
    char label[JOB_NAME_SIZE];

    snprintf(label, JOB_NAME_SIZE, "%s", name); /* valid as the value of a metric's label: */
    for (char *c = label; *c; c++)
        if (*c == '"' || *c == '\\' || *c == '\n')
            *c = '_';
    while (*at && strcmp((*at)->record.name, label) != 0)
        at = &(*at)->next;
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (*at)
            memcpy((*at)->record.name, label, sizeof label);
    }
    return *at ? &(*at)->record : NULL;
}

void job_log_note(struct engine *engine, const char *name, bool failed, int64_t us)
{
    pthread_mutex_lock(&engine->lock);
    struct job_record *record = job_log_record_of(engine, name);

    if (record) {
        record->last_us = us;
        record->failed += failed;
        record->done += !failed;
        if (!failed)
            record->last_done_wall_ms = clock_wall_ms();
        if (us)
            record->skipped_since_wall_ms = 0;
    }
    pthread_mutex_unlock(&engine->lock);
}

bool job_log_skip(struct engine *engine, const char *name, const char *holder)
{
    bool first = false;

    pthread_mutex_lock(&engine->lock);
    struct job_record *record = job_log_record_of(engine, name);

    if (record) {
        record->skipped++;
        first = !record->skipped_since_wall_ms;
        if (first)
            record->skipped_since_wall_ms = clock_wall_ms();
        snprintf(record->lock_holder, sizeof record->lock_holder, "%s", holder);
    }
    pthread_mutex_unlock(&engine->lock);
    return first;
}

bool job_log_snapshot(struct engine *engine, size_t index, struct job_record *record)
{
    pthread_mutex_lock(&engine->lock);
    const struct job_log *at = engine->job_log;

    while (at && index--)
        at = at->next;
    if (at)
        *record = at->record;
    pthread_mutex_unlock(&engine->lock);
    return at != NULL;
}

void job_log_free(struct engine *engine)
{
    while (engine->job_log) {
        struct job_log *first = engine->job_log;

        engine->job_log = first->next;
        free(first);
    }
}
