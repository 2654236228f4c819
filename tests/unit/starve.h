/* Arenas that have no memory from a moment on, in whatever calls them from another file. */
#ifndef TESTS_UNIT_STARVE_H
#define TESTS_UNIT_STARVE_H

#include <stdbool.h>

extern bool starved;

#endif
