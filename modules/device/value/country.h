/*
 * ISO 3166-1: the countries' two- and three-letter codes, and their usual English names, by which
 * they are in order. Pure; any thread.
 */
#ifndef DEVICE_COUNTRY_H
#define DEVICE_COUNTRY_H

#include <stddef.h>

#define COUNTRIES 249

/* The index of a country by either code, in any case; -1: there is none. */
int country_find(const char *code);

/* The same by its English short name, of ISO 3166-1 or in common use, in any case. */
int country_find_name(const char *name);

/* Its code of 2 or of 3 letters, in capitals, with a NUL. */
void country_code(int country, size_t letters, char code[4]);

const char *country_name(int country);

#endif
