/*
 * What was passed over in a request, and the client should know: texts, which an answer has in the
 * `warnings` of its object. Never with a value of the client's.
 */
#ifndef CORE_WARNING_H
#define CORE_WARNING_H

#include <jansson.h>
#include <stdarg.h>

#include <busbar/abi.h>

#define WARNINGS_MAX 64 /* further ones are not kept */

/*
 * Adds a text to the array *warnings (NULL: none yet), unless it is there already. 0, or -1 without
 * memory.
 */
BB_PRINTF(2, 3) int warnings_add(json_t **warnings, const char *format, ...);
BB_PRINTF(2, 0) int warnings_vadd(json_t **warnings, const char *format, va_list args);

#endif
