/*
 * The type of a file by its content, through libmagic. One cookie for all threads, behind a lock:
 * reading its database takes longer than looking at many files.
 */
#ifndef DEVICE_TYPE_H
#define DEVICE_TYPE_H

#include <stddef.h>

struct type_finder;

/* NULL with the reason in `why`: no memory, or libmagic's database is missing. */
struct type_finder *type_finder_new(char *why, size_t size);
void type_finder_free(struct type_finder *finder);

/* The type, as "application/pdf", into `type`. Blocks. */
void type_find(struct type_finder *finder, const char *path, char *type, size_t size);

#endif
