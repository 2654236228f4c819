/*
 * Writes JSON as JavaScript does: JSON.stringify(JSON.parse(x)) returns the same bytes, so that a
 * receiver can parse a body and still verify its signature. The output is compact, with keys in
 * insertion order, `/` and non-ASCII characters unescaped, and numbers in the shortest form that
 * reads back as the same value.
 *
 * There are two unavoidable differences: integers beyond ±2^53 are written exactly, but JavaScript
 * cannot represent them; and keys that are array indexes ("1") keep their position, but JavaScript
 * sorts them first.
 */
#ifndef CORE_JSON_OUT_H
#define CORE_JSON_OUT_H

#include <jansson.h>
#include <stddef.h>

/*
 * Returns the text with a NUL, which the caller frees with free(); *length (may be NULL) excludes
 * the NUL. Returns NULL if memory ran out or the value cannot be written (more than 128 levels).
 * Any type of value is allowed at the top.
 */
char *json_write(const json_t *value, size_t *length);

/*
 * Creates a string from any bytes, with U+FFFD for each byte that is not UTF-8. The caller owns it.
 * NULL: out of memory.
 */
json_t *json_out_text(const char *text);

#endif
