/*
 * Reloading: a thread that builds a whole generation beside the live one and has it take over.
 * Reads the file, loads the modules, checks, compares with what only a restart can change, opens,
 * migrates, makes pools and workers; whatever fails throws the new one away, and the old one serves
 * on. One reload at a time; who asks during one gets the next.
 *
 * Opening comes before migrating, since it touches nothing outside: what can fail without a trace
 * fails first. A reload that brings no new schema does not ask the database at all, so a setting
 * can be changed while it is away.
 */
#ifndef CORE_RELOAD_H
#define CORE_RELOAD_H

#include "core/engine/engine.h"

/* Its thread, which first migrates for the start's generation. NULL: it cannot be made (logged). */
struct reloader *reloader_new(struct engine *engine);

/* Finishes what it is doing, then ends. NULL is fine. */
void reloader_free(struct reloader *reloader);

/*
 * Asks for a reload; any thread, does not wait. `fd` (taken; -1: nobody) is told how it went, as
 * control.h says, and closed.
 */
void reloader_ask(struct reloader *reloader, int fd);

struct reload_history {
    unsigned done, refused;
    int64_t last_wall_ms; /* 0: never */
    bool last_done;
    char last[512]; /* what was said; the first problem if there were several */
};

void reloader_history(struct reloader *reloader, struct reload_history *history);

#endif
