/*
 * Whether a schema says only what schema.h judges values by: each keyword, type and format is
 * known, its rule has the form that it needs, and its examples and defaults keep to it.
 */
#ifndef TESTS_SCHEMA_FLAW_H
#define TESTS_SCHEMA_FLAW_H

#include <jansson.h>

/* What is wrong with the schema and where, or NULL. `document` is what "$ref" is looked up in; what
 * a reference leads to is not looked at again. */
const char *schema_flaw(const json_t *document, const json_t *schema);

/* The first flaw of a schema anywhere inside `part`: the values of members named "schema". */
const char *schema_flaw_inside(const json_t *document, const json_t *part);

#endif
