/*
 * Writing JSON as JavaScript does: JSON.stringify(JSON.parse(x)) gives the same bytes, so that a
 * receiver may parse a body and still verify its signature. Compact, keys in the order they were
 * set, `/` and all beyond ASCII as they are, numbers in the shortest form that reads back the same.
 *
 * Two things no writer can give: integers beyond ±2^53 are written exactly, which JavaScript cannot
 * hold; and keys that are array indexes ("1") stay in their order, where JavaScript sorts them
 * first.
 */
#ifndef CORE_JSON_OUT_H
#define CORE_JSON_OUT_H

#include <jansson.h>
#include <stddef.h>

/*
 * The text with a NUL behind it, to be freed by free(); *length (may be NULL) without the NUL.
 * NULL when there is no memory or the value is no JSON (over 128 levels deep). Any value at the
 * top.
 */
char *json_write(const json_t *value, size_t *length);

/* A text of any bytes, with U+FFFD for each that is no UTF-8; the caller's. NULL: no memory. */
json_t *json_out_text(const char *text);

#endif
