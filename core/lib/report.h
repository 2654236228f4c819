/* A report, created by a signal handler in these steps. */
#ifndef CORE_REPORT_H
#define CORE_REPORT_H

#include "core/lib/crash.h"
#include "core/lib/frames.h"

enum { REPORT_PATH = 320 };

struct report {
    int signal;
    uintptr_t address; /* the address that caused the fault */
    bool sent;         /* sent by a process, not raised by an instruction */
    bool foreign;      /* sent by another process: no module is at fault */
    const void *context;
    const char *exit;   /* "exit()": called instead of a signal; or NULL */
    const char *reason; /* why the host ended itself; NULL: it did not */
    struct crash_snapshot who;
    bool guard; /* the address is in the guard below the fiber's stack */
    struct frames frames;
    const struct object *blamed; /* the innermost module, or NULL */
    char directory[256];
    char path[REPORT_PATH]; /* of the file; "": none */
};

void report_who(struct report *report);   /* the activity */
void report_stack(struct report *report); /* the frames */
void report_names(struct report *report); /* their function names */
void report_file(struct report *report);
void report_line(struct report *report); /* the log line */
void report_tell(struct report *report); /* notifies the supervisor */

/* For crash_snapshot() at a running thread. */
void report_snapshot(struct report *report, struct crash_snapshot *snapshot);

/*
 * Returns the module to be named: the module of the innermost code, or else the recorded one; "":
 * none.
 */
const char *report_module(const struct report *report);

#endif
