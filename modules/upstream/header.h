/* Checks the name and the value of a header by RFC 9110. Pure; any thread. */
#ifndef UPSTREAM_HEADER_H
#define UPSTREAM_HEADER_H

#include <stdbool.h>

/* A name is a token. */
bool header_is_name(const char *text);

/* A value has no line ends and no control characters except tabs. */
bool header_is_value(const char *text);

#endif
