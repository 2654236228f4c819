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
 * The descriptor as JSON, the caller's; NULL: out of memory, or a text in it is no UTF-8. A
 * descriptor that does not fit the rules of module_validate() is shown as it is.
 */
json_t *inspect_json(const struct bb_module *descriptor);

/*
 * Puts ? for control characters in all texts: a file may come from anybody, and what it says must
 * not be taken for other lines, or for orders to a terminal. 0; or -1: out of memory.
 */
int inspect_sanitize(json_t *json);

/* What inspect_json() made, sanitize, for people. */
void inspect_print(const json_t *descriptor, FILE *out);

#endif
