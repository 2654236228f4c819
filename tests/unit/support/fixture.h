/* Fixtures of many unit tests. */
#ifndef TESTS_UNIT_FIXTURE_H
#define TESTS_UNIT_FIXTURE_H

#include "core/module/generation.h"

/* Returns the bytes of a file, up to 1 MiB, and a NUL; the caller frees them. */
char *file_read_bytes(const char *path, size_t *length);
void file_write_bytes(const char *path, const void *bytes, size_t length);

/* An arena, made before each test and freed after it. */
extern struct arena *arena;
void arena_setup(void);
void arena_teardown(void);

/* An arena as well as an empty file for settings, and a list of the problems in them. */
extern char conf[sizeof "/tmp/busbar-settings-XXXXXX"];
extern struct setting_problems problems;
void conf_setup(void);
void conf_teardown(void);

/* An open generation of that file; NULL: there are problems. */
struct generation *conf_generation(const struct bb_api *api);

#endif
