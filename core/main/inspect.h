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
 * Replaces control characters in all texts by ?: a file from an unknown source must not be able to
 * forge lines of the output or send escape sequences to a terminal. Returns 0, or -1 if memory ran
 * out.
 */
int inspect_sanitize(json_t *json);

/* Prints the result of inspect_json(), after inspect_sanitize(), for people. */
void inspect_print(const json_t *descriptor, FILE *out);

#endif
