/* One report, put together by a signal handler in these steps. Private to recovery/. */
#ifndef CORE_REPORT_H
#define CORE_REPORT_H

#include "core/recovery/crash.h"
#include "core/recovery/frames.h"

enum { REPORT_PATH = 320 };

struct report {
    int signal;
    uintptr_t address; /* that was touched */
    bool sent;         /* by somebody, not raised by an instruction */
    bool foreign;      /* by another process: no module is to blame */
    const void *context;
    const char *exit;   /* "exit()": who called that, and no signal; or NULL */
    const char *reason; /* why the host ended itself; NULL: it did not */
    struct crash_look who;
    bool guard; /* it touched the guard below the fiber */
    struct frames frames;
    const struct object *blamed; /* the innermost module, or NULL */
    char directory[256];
    char path[REPORT_PATH]; /* of the file; "": none */
};

void report_who(struct report *report);   /* what ran */
void report_stack(struct report *report); /* the frames */
void report_names(struct report *report); /* their functions */
void report_file(struct report *report);
void report_line(struct report *report); /* in the log */
void report_tell(struct report *report); /* to the supervisor */

/* For one who looks at a living thread. */
void report_look(struct report *report, struct crash_look *look);

/* The module to be named: that of the innermost code, else the one that was noted; "": none. */
const char *report_module(const struct report *report);

#endif
