/*
 * The names of time zones, read once from the system's zone data, so that no request looks at a
 * disk.
 */
#ifndef DEVICE_TIMEZONES_H
#define DEVICE_TIMEZONES_H

#include <stdbool.h>
#include <stddef.h>

struct timezones;

/*
 * The names of all zones below a directory; none where it does not exist. Blocks. NULL without
 * memory, or where the directory cannot be read.
 */
struct timezones *timezones_new(const char *directory);
void timezones_free(struct timezones *zones);

/* Whether it is a zone's name, as Europe/Berlin. Any thread. */
bool timezones_have(const struct timezones *zones, const char *name);

/* How many there are, and the name of one, in their order. Any thread. */
size_t timezones_count(const struct timezones *zones);
const char *timezones_name(const struct timezones *zones, size_t index);

#endif
