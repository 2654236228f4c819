/*
 * The crash history, which the supervisor keeps across workers and passes to each worker at its
 * start (supervised.h). Plain data that two processes of the same program exchange as bytes.
 */
#ifndef CORE_HISTORY_H
#define CORE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HISTORY_NAME = 64,
    HISTORY_ROWS = 66, /* one for each module that a configuration may have, the host, and
                        * unknown modules */
    HISTORY_REPORT = 320,
    QUARANTINE_CRASHES = 3,
    QUARANTINE_MS = 60000
};

/* Describes the end of a worker. */
struct crash_note {
    char module[HISTORY_NAME];   /* the module at fault; "": unknown */
    char file[HISTORY_NAME];     /* its file without directory and .so; "": none */
    char how[HISTORY_NAME];      /* "SIGSEGV", "exit" … */
    char report[HISTORY_REPORT]; /* its path; "": none */
};

struct crash_row {
    char module[HISTORY_NAME], file[HISTORY_NAME];
    unsigned count;
    unsigned in_vain;                  /* number of consecutive starts that it ended before the
                                        * worker served */
    int64_t at_ms[QUARANTINE_CRASHES]; /* times of the last crashes, monotonic; 0: none */
    bool out;                          /* the module is disabled */
};

struct crash_history {
    unsigned restarts; /* number of workers that were started after another one had ended */
    struct crash_row rows[HISTORY_ROWS];
    size_t row_count;
    struct crash_note last; /* of the previous worker; how "": this is the first one */
};

/*
 * Records a crash. Quarantines its module if this was the third crash within a minute, or the third
 * consecutive failed start. `served`: the worker had begun to serve.
 */
void history_add(struct crash_history *history, const struct crash_note *note, bool served,
                 int64_t now_ms);

/* Ends the quarantine of all modules. */
void history_forgive(struct crash_history *history);

/* Returns the row of a disabled module, by the name of its file or by its own name; NULL: none. */
const struct crash_row *history_out(const struct crash_history *history, const char *name);

#endif
