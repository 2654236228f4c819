/*
 * Texts about ignored input that the client should know about; an answer contains them in
 * `warnings` of its object. They never contain values of the client.
 */
#ifndef CORE_WARNING_H
#define CORE_WARNING_H

#include <jansson.h>
#include <stdarg.h>

#include <busbar/abi.h>

#define WARNINGS_MAX 64 /* further ones are dropped */

/*
 * Adds a text to the array *warnings (NULL: none yet), unless it contains the text already. Returns
 * 0, or -1 if memory ran out.
 */
BB_PRINTF(2, 3) int warnings_add(json_t **warnings, const char *format, ...);
BB_PRINTF(2, 0) int warnings_vadd(json_t **warnings, const char *format, va_list args);

#endif
