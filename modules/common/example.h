/*
 * Makes example values of the fields that modules declare. The API reference shows them, and tests
 * of webhooks send them. The caller owns a returned value; NULL means out of memory. Any thread.
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
 * Returns an object with examples of the fields. If `all` is false, omits fields that are neither
 * required nor have an example. If the only field is named ".", returns the example of this field.
 */
json_t *example_of(const struct bb_table *fields, bool all);

#endif
