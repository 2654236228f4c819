/*
 * Detects the type of a file by its content, with libmagic. All threads share one cookie under a
 * lock, because loading libmagic's database takes longer than checking many files.
 */
#ifndef DEVICE_TYPE_H
#define DEVICE_TYPE_H

#include <stddef.h>

struct type_finder;

/* Returns NULL with the reason in `why`: out of memory, or libmagic's database is missing. */
struct type_finder *type_finder_new(char *why, size_t size);
void type_finder_free(struct type_finder *finder);

/* Writes the type, for example "application/pdf", into `type`. Blocks. */
void type_find(struct type_finder *finder, const char *path, char *type, size_t size);

#endif
