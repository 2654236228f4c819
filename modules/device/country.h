/* ISO 3166-1: the countries' two- and three-letter codes. Pure; any thread. */
#ifndef DEVICE_COUNTRY_H
#define DEVICE_COUNTRY_H

#define COUNTRIES 249

/* The index of a country by either code, in any case; -1: there is none. */
int country_find(const char *code);

#endif
