/*
 * Reloads the configuration: a thread builds a complete generation while the old one serves, and
 * then swaps them. It reads the file, loads and checks the modules, compares settings that only a
 * restart can change, opens the modules, migrates the database, and creates pools and workers. If a
 * step fails, it discards the new generation, and the old one continues. If a reload is requested
 * during a reload, another one follows.
 *
 * Opening precedes migrating, because opening has no lasting effect if it fails. If the schema is
 * unchanged, a reload does not use the database, so settings can be changed while the database is
 * unavailable.
 */
#ifndef CORE_RELOAD_H
#define CORE_RELOAD_H

#include "core/module/engine.h"

/*
 * Creates the reload thread, a thread that closes superseded generations, and the migrator for the
 * first generation. NULL: failed (logged).
 */
struct reloader *reloader_new(struct engine *engine);

/*
 * Waits for the current reload, closes the superseded generations and ends the threads. Call after
 * the loops have ended. NULL is allowed.
 */
void reloader_free(struct reloader *reloader);

/*
 * Requests a reload. When it is done, sends the result to the client `fd` (-1: none) as described
 * in control.h, and closes `fd`. Any thread; does not wait.
 */
void reloader_ask(struct reloader *reloader, int fd);

/* Creates the threads of a generation. Returns 0, or -1 (logged): then call reload_discard(). */
int reload_start_threads(struct engine *engine, struct generation *generation);

/*
 * Ends the threads of reload_start_threads(), and frees the generation. Only the caller and these
 * threads may have references to it.
 */
void reload_discard(struct generation *generation);

/* Makes the first generation live, before the loops run. */
void reload_first(struct engine *engine);

struct reload_history {
    unsigned done, refused;
    int64_t last_wall_ms; /* 0: never */
    bool last_done;
    char last[512]; /* message of the last reload; with several problems, the first one */
};

void reloader_history(struct reloader *reloader, struct reload_history *history);

#endif
