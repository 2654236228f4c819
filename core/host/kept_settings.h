/*
 * The settings that a worker serves with are kept by its supervisor: the next one starts by them
 * where the file itself is refused by then, or where its reload has ended the worker. So a crash
 * does not become an outage for somebody's half-finished edit, which a reload would have refused.
 */
#ifndef CORE_KEPT_SETTINGS_H
#define CORE_KEPT_SETTINGS_H

#include "core/generation/generation.h"

/* Has those of a live generation kept. */
void kept_settings_keep(const struct generation *generation);

/* Whether there are some for this file and it has others by now. */
bool kept_settings_differ(const char *conf_path);

/* A generation by those that were kept for this file; NULL: there are none, or they do not do. */
struct generation *kept_settings_generation(const char *conf_path);

#endif
