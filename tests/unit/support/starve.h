/* While `starved` is true, arenas have no memory when another source file calls them. */
#ifndef TESTS_UNIT_STARVE_H
#define TESTS_UNIT_STARVE_H

#include <stdbool.h>

extern bool starved;

#endif
