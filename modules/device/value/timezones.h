/* The names of time zones, read once from the system's zone data, so no request reads a disk. */
#ifndef DEVICE_TIMEZONES_H
#define DEVICE_TIMEZONES_H

#include <stdbool.h>
#include <stddef.h>

struct timezones;

/*
 * Reads the names of all zones below a directory; the set is empty if the directory does not exist.
 * Blocks. Returns NULL if out of memory or if the directory cannot be read.
 */
struct timezones *timezones_new(const char *directory);
void timezones_free(struct timezones *zones);

/* Returns whether `name` is a zone's name, such as Europe/Berlin. Any thread. */
bool timezones_have(const struct timezones *zones, const char *name);

/* The number of zones, and the name of each, sorted. Any thread. */
size_t timezones_count(const struct timezones *zones);
const char *timezones_name(const struct timezones *zones, size_t index);

#endif
