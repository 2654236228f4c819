/* Units of energy, and values in them. Pure; any thread. */
#ifndef READING_UNIT_H
#define READING_UNIT_H

#include <stdbool.h>

/* Wh in a unit: Wh, kWh, MWh, GWh in any case; 0: none of them. */
double unit_wh(const char *unit);

/* 'H' for History, 'D' for Delta, in any case; 0: neither. */
char unit_type(const char *type);

/* "History" or "Delta". */
const char *unit_type_name(char type);

/* Reads a number in decimal digits as JSON writes one, and also "+5", ".5" and "5.". Returns false
 * if the text is not a number, or the number is too large. */
bool unit_decimal(const char *text, double *number);

#endif
