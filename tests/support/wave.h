/*
 * A host with the module wave (module_wave.c), whose configuration and module file are replaced
 * while it runs. The module's file is in a directory for this test; a version is installed by
 * rename, as an operator does it.
 */
#ifndef TESTS_WAVE_H
#define TESTS_WAVE_H

#include "people.h"

struct wave {
    struct host *host;
    struct host_spec spec; /* settings in the file; after a change, call wave_write() */
    char *file;            /* the module's file */
};

/* Starts a host with its own database and version 1, which says hello; `more` as in host_spec. */
struct wave *wave_start(const char *name, const char *more);

/* Like wave_start() without starting the host. */
struct wave *wave_prepare(const char *name, const char *more);

/* Writes the configuration: modules in addition to auth and health (NULL: wave), and sections. */
void wave_write(struct wave *wave, const char *modules, const char *more);

/* Replaces the module's file by a version (or any other file). */
void wave_upgrade(const struct wave *wave, int version);
void wave_exchange(const struct wave *wave, int version,
                   size_t more); /* extra bytes after its end */
void wave_replace(const struct wave *wave, const void *bytes, size_t length);

/* Returns the bytes of a version's file. */
char *wave_bytes(int version, size_t *length);

/* Run `busbar reload`. The first fails the test unless the reload succeeds; the second unless it is
 * refused with this message. */
void wave_reload(const struct wave *wave);
void wave_refused(const struct wave *wave, const char *reason);

/* Sends GET /api/wave; fails the test unless the response has this version and this greeting. */
void wave_expect(const struct wave *wave, int version, const char *greeting);

/* Run `busbar status`; the second function repeats it until the output contains the text. */
char *wave_status(const struct wave *wave);
void wave_status_soon(const struct wave *wave, const char *part);

/* Waits until the live generation is the only one. */
void wave_drained(const struct wave *wave);

#endif
