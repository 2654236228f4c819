/*
 * What crashed, as the supervisor remembers it over its workers, and each worker is told when it
 * starts. Plain data: it travels as bytes between two processes of one program.
 */
#ifndef CORE_HISTORY_H
#define CORE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HISTORY_NAME = 64,
    HISTORY_ROWS = 66, /* as many modules as a configuration may have, the host, unknown ones */
    HISTORY_REPORT = 320,
    QUARANTINE_CRASHES = 3,
    QUARANTINE_MS = 60000
};

/* One end of a worker. */
struct crash_note {
    char module[HISTORY_NAME];   /* to blame; "": none is known */
    char file[HISTORY_NAME];     /* its file without directory and .so; "": none */
    char how[HISTORY_NAME];      /* "SIGSEGV", "exit" … */
    char report[HISTORY_REPORT]; /* path; "": none */
    bool reloading;              /* by what a reload called, before its settings were live */
};

struct crash_row {
    char module[HISTORY_NAME], file[HISTORY_NAME];
    unsigned count;
    unsigned in_vain;                  /* starts in a row that it ended, before the worker served */
    int64_t at_ms[QUARANTINE_CRASHES]; /* the last ones, monotonic; 0: none */
    bool out;                          /* it is to be left out */
};

struct crash_history {
    unsigned restarts; /* workers that were started after one had ended */
    struct crash_row rows[HISTORY_ROWS];
    size_t row_count;
    struct crash_note last; /* of the worker before; how "": it is the first one */
};

/*
 * Counts a crash, and quarantines its module if it was the third within a minute, or the third
 * start in a row that came to nothing: `served` says whether the worker had got further.
 */
void history_add(struct crash_history *history, const struct crash_note *note, bool served,
                 int64_t now_ms);

/* Takes all modules out of quarantine. */
void history_forgive(struct crash_history *history);

/* The row of a module that is to be left out, by the name of its file or its own; NULL: none. */
const struct crash_row *history_out(const struct crash_history *history, const char *name);

#endif
