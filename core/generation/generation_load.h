/* The making of a generation up to the moment where modules are called; for generation*.c only. */
#ifndef CORE_GENERATION_LOAD_H
#define CORE_GENERATION_LOAD_H

#include "core/generation/generation.h"

/*
 * Fills generation->settings and everything that comes of it: modules loaded, checked, ordered,
 * their settings bound, router, events, keys, lists. Problems are added and it goes on as far as it
 * can. -1 when not even the file could be read. `copy`: read in its place; -1: there is none.
 */
int generation_load(struct generation *generation, const char *conf_path, int copy,
                    struct setting_problems *problems);

/* Fills generation->modules from the setting `modules`, in the order they are to be opened in. */
void generation_load_modules(struct generation *generation, struct setting_problems *problems);

/* Whether the directory of modules holds a module of this name; a settings_is_module. */
bool generation_is_installed(const void *generation, const char *name);

/* Router, events with their hooks, authenticator. */
void generation_link(struct generation *generation, struct setting_problems *problems);

/*
 * generation_left_out.c. Whether this entry of the list `modules` is in quarantine, and left out:
 * noted then. And, once all others are loaded: leaves out those that need what is not
 * there because of it.
 */
bool generation_leaves_out(struct generation *g, const char *entry);
/* Whether an entry whose file is refused is left out: of kept settings. Noted then. */
bool generation_leaves_refused_out(struct generation *g, const char *entry);
void generation_leave_needy_out(struct generation *g);

#endif
