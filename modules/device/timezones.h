/* The names of time zones, read once from the system's zone data, so no request reads a disk. */
#ifndef DEVICE_TIMEZONES_H
#define DEVICE_TIMEZONES_H

#include <jansson.h>

/*
 * Returns an object whose members are the names of all zones below a directory (Europe/Berlin),
 * sorted. It is empty if the directory does not exist. Blocks. The caller owns the object, which
 * all threads may read. NULL: out of memory, or the directory cannot be read.
 */
json_t *timezones_read(const char *directory);

#endif
