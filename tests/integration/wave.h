/*
 * A host with the module wave (module_wave.c), whose configuration and file are exchanged while it
 * serves. The file of the module is in a directory of the test's own; a version is put there as an
 * operator does it, by rename.
 */
#ifndef TESTS_WAVE_H
#define TESTS_WAVE_H

#include "people.h"

struct wave {
    struct host *host;
    struct host_spec spec; /* what the file says now; change it and call wave_write() */
    char *file;            /* of the module */
};

/* A host of that name with a database of its own, and version 1. `more` as in host_spec. */
struct wave *wave_start(const char *name, const char *more);

/* The same without starting it. */
struct wave *wave_prepare(const char *name, const char *more);

/* Writes the configuration: modules besides auth and health (NULL: wave), and sections. */
void wave_write(struct wave *wave, const char *modules, const char *more);

/* Puts a version (or any other file) in the module's place. */
void wave_upgrade(const struct wave *wave, int version);
void wave_exchange(const struct wave *wave, int version, size_t more); /* bytes behind its end */
void wave_replace(const struct wave *wave, const void *bytes, size_t length);

/* The bytes of a version's file. */
char *wave_bytes(int version, size_t *length);

/* `busbar reload`; fails unless it is done. Or unless it is refused, and says this. */
void wave_reload(const struct wave *wave);
char *wave_refused(const struct wave *wave, const char *reason);

/* GET /api/wave: fails unless it is this version with this greeting. */
void wave_expect(const struct wave *wave, int version, const char *greeting);

/* `busbar status`. Waits until it holds the text. */
char *wave_status(const struct wave *wave);
void wave_status_soon(const struct wave *wave, const char *part);

/* Waits until the log holds the text; how often it does. */
void wave_log_soon(const struct wave *wave, const char *part);
int wave_logged(const struct wave *wave, const char *part);

/* Waits until only the live generation is left. */
void wave_drained(const struct wave *wave);

#endif
