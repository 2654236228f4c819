/* What many unit tests stand on. */
#ifndef TESTS_UNIT_FIXTURE_H
#define TESTS_UNIT_FIXTURE_H

#include "core/settings/settings.h"

/* An arena, made before each test and freed behind it. */
extern struct arena *arena;
void arena_setup(void);
void arena_teardown(void);

/* The same, and an empty file to write settings to, with a list for what is wrong with them. */
extern char conf[sizeof "/tmp/busbar-settings-XXXXXX"];
extern struct setting_problems problems;
void conf_setup(void);
void conf_teardown(void);

#endif
