/* Reads units of energy, types of readings and decimal numbers. No side effects; any thread. */
#ifndef READING_UNIT_H
#define READING_UNIT_H

#include <stdbool.h>

/* Returns the Wh of a unit (Wh, kWh, MWh or GWh, ignoring case), or 0 for an unknown unit. */
double unit_wh(const char *unit);

/* Returns 'H' for History or 'D' for Delta, ignoring case, or 0 for another text. */
char unit_type(const char *type);

/* Returns "History" or "Delta". */
const char *unit_type_name(char type);

/*
 * Parses a decimal number as in JSON, and also "+5", ".5" and "5.". Returns false if the text is
 * not a number, or the number is too large.
 */
bool unit_decimal(const char *text, double *number);

#endif
