/*
 * Examples of values, made from the fields that modules declare. The reference shows them, and the
 * test of a webhook sends them. The caller owns a result; NULL: out of memory. Any thread.
 */
#ifndef COMMON_EXAMPLE_H
#define COMMON_EXAMPLE_H

#include <busbar/busbar.h>

/*
 * Returns an example or default, which is a text in the table, as a value of the field's type. The
 * text null is null if the field is nullable.
 */
json_t *example_value(const struct bb_field *field, const char *text);

/*
 * Returns an object of the fields: all of them, or those that are required or have an example. If
 * the only field is named ".", returns its example instead.
 */
json_t *example_of(const struct bb_table *fields, bool all);

#endif
