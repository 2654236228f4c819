/* What may be the name and the value of a header, by RFC 9110. Pure; any thread. */
#ifndef UPSTREAM_HEADER_H
#define UPSTREAM_HEADER_H

#include <stdbool.h>

/* A token. */
bool header_is_name(const char *text);

/* Nothing that ends a line, nor another control character but a tab. */
bool header_is_value(const char *text);

#endif
