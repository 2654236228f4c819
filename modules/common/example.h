/*
 * Examples of values, made from the fields that modules declare. The reference shows them, and the
 * test of a webhook sends them. The caller owns a result; NULL: out of memory. Any thread.
 */
#ifndef COMMON_EXAMPLE_H
#define COMMON_EXAMPLE_H

#include <busbar/busbar.h>

/*
 * Converts the text of an example or default to a JSON value of the field's type. If the field is
 * nullable, the text "null" becomes null.
 */
json_t *example_value(const struct bb_field *field, const char *text);

/*
 * Returns an object of the fields: all of them, or those that are required or have an example. If
 * the only field is named ".", returns its example instead.
 */
json_t *example_of(const struct bb_table *fields, bool all);

#endif
