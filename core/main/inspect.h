/*
 * `busbar inspect`: writes a module's descriptor as JSON and as text. The descriptor is a copy by
 * module_descriptor_copy(); no function of the module is called.
 */
#ifndef CORE_INSPECT_H
#define CORE_INSPECT_H

#include <jansson.h>
#include <stdio.h>

#include <busbar/module.h>

/*
 * Returns the descriptor as JSON, owned by the caller; NULL if memory ran out or a text is not
 * UTF-8. The descriptor need not follow the rules of module_validate().
 */
json_t *inspect_json(const struct bb_module *descriptor);

/*
 * Prints the result of inspect_json() for people: a line for each row of a table, with the members
 * that are set. Control characters in texts become ?.
 */
void inspect_print(json_t *descriptor, FILE *out);

#endif
