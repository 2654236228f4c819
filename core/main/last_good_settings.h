/*
 * The supervisor keeps the settings of the live generation. The next worker starts with them if the
 * file is invalid by then, or if reloading it crashed the worker. So a crash does not become an
 * outage because of an unfinished edit, which a reload would have refused.
 */
#ifndef CORE_LAST_GOOD_SETTINGS_H
#define CORE_LAST_GOOD_SETTINGS_H

#include "core/module/generation.h"

/* Passes the settings of a live generation to the supervisor. */
void last_good_settings_keep(const struct generation *generation);

/* Whether the supervisor has settings of this file that differ from the file's current content. */
bool last_good_settings_differ(const char *conf_path);

/*
 * Creates a generation from the last good settings of this file; NULL: there are none, or they do
 * not work.
 */
struct generation *last_good_settings_generation(const char *conf_path);

#endif
