/* Builds a generation up to the point where modules are called; for generation*.c only. */
#ifndef CORE_GENERATION_LOAD_H
#define CORE_GENERATION_LOAD_H

#include "core/module/generation.h"

/*
 * Fills generation->settings and everything derived from it: modules loaded, checked, ordered,
 * their settings bound, router, events, keys, lists. Adds problems and continues as far as
 * possible. -1 if the file could not be read.
 */
int generation_load(struct generation *generation, const char *conf_path,
                    struct setting_problems *problems);

/*
 * Fills generation->modules from the setting `modules`, in the order in which they must be opened.
 */
void generation_load_modules(struct generation *generation, struct setting_problems *problems);

/* Whether the module directory contains a module with this name; a settings_is_module. */
bool generation_is_installed(const void *generation, const char *name);

/* Sets up the router, events with their hooks, and the authenticator. */
void generation_link(struct generation *generation, struct setting_problems *problems);

/*
 * generation_left_out.c. generation_leaves_out(): whether this entry of the list `modules` is in
 * quarantine, and therefore disabled, which is recorded. generation_leave_needy_out(): once all
 * others are loaded, disables modules that need a service of a disabled one.
 */
bool generation_leaves_out(struct generation *g, const char *entry);
/*
 * Whether entries whose files are refused are disabled: after a crash, because the previous worker
 * has served without this problem.
 */
bool generation_leaves_refused_out(const struct generation *g);
/* Records that the entry is disabled. */
void generation_leave_out(struct generation *g, const char *entry, const char *why);
void generation_leave_needy_out(struct generation *g);

#endif
