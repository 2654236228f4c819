/*
 * Reloading: a thread builds a complete generation while the old one serves, and then swaps them.
 * It reads the file, loads and checks the modules, compares settings that only a restart can
 * change, opens, migrates, and creates pools and workers. If a step fails, the new generation is
 * discarded, and the old one continues. There is one reload at a time; requests during a reload are
 * served by the next one.
 *
 * Opening precedes migrating because it has no effects outside: steps that can fail without a trace
 * come first. If the schema is unchanged, a reload does not use the database, so settings can be
 * changed while it is unavailable.
 */
#ifndef CORE_RELOAD_H
#define CORE_RELOAD_H

#include "core/module/engine.h"

/*
 * Creates the thread, which first migrates for the first generation. NULL: it cannot be created
 * (logged).
 */
struct reloader *reloader_new(struct engine *engine);

/* Finishes the current reload, then ends. NULL is allowed. */
void reloader_free(struct reloader *reloader);

/*
 * Requests a reload. Any thread; does not wait. The result is sent to `fd` (taken; -1: none) as
 * described in control.h, and `fd` is closed.
 */
void reloader_ask(struct reloader *reloader, int fd);

/* Creates the thread that closes superseded generations. NULL: it cannot be created (logged). */
struct reclaimer *reclaimer_new(struct engine *engine);

/*
 * Call after the loops have ended: closes the remaining generations and ends the thread. NULL is
 * allowed.
 */
void reclaimer_free(struct reclaimer *reclaimer);

/* Creates the threads of a generation. Returns 0, or -1 (logged): then call swap_discard(). */
int swap_start_threads(struct engine *engine, struct generation *generation);

/* Creates only the pools, as a command needs them. Returns 0, or -1 (logged). */
int swap_pools(struct generation *generation);

/*
 * Ends and frees the result of swap_start_threads(), then the generation. The caller has the only
 * reference, apart from the workers.
 */
void swap_discard(struct generation *generation);

/* Makes the first generation live, before the loops run. */
void swap_first(struct engine *engine);

struct reload_history {
    unsigned done, refused;
    int64_t last_wall_ms; /* 0: never */
    bool last_done;
    char last[512]; /* the message; the first problem if there were several */
};

void reloader_history(struct reloader *reloader, struct reload_history *history);

#endif
