/*
 * ISO 3166-1: the two- and three-letter codes of countries and their usual English names, sorted by
 * name. Pure functions; any thread may call them.
 */
#ifndef DEVICE_COUNTRY_H
#define DEVICE_COUNTRY_H

#include <stddef.h>

#define COUNTRIES 249

/* Returns the index of a country by either code, ignoring case, or -1. */
int country_find(const char *code);

/*
 * Returns the index of a country by its English name, as in ISO 3166-1 or in common use, ignoring
 * case, or -1.
 */
int country_find_name(const char *name);

/* Writes the country's code of 2 or 3 letters, in capitals, with a NUL. */
void country_code(int country, size_t letters, char code[4]);

const char *country_name(int country);

#endif
