/*
 * `busbar inspect`: a module's descriptor as JSON and as text. The descriptor is any that
 * module_descriptor_copy() has made; nothing of the module is called.
 */
#ifndef CORE_INSPECT_H
#define CORE_INSPECT_H

#include <jansson.h>
#include <stdio.h>

#include <busbar/module.h>

/*
 * Returns the descriptor as JSON, owned by the caller; NULL if memory ran out or a text is not
 * UTF-8. A descriptor that does not fit the rules of module_validate() is shown as it is.
 */
json_t *inspect_json(const struct bb_module *descriptor);

/*
 * Prints the result of inspect_json() for people: a line for each row of a table, with the members
 * that are set. Control characters in texts become ?.
 */
void inspect_print(json_t *descriptor, FILE *out);

#endif
