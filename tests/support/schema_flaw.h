/*
 * Checks that a schema uses only rules that schema.h can validate: each keyword, type and format is
 * known, each rule has the form it needs, and the examples and defaults are valid.
 */
#ifndef TESTS_SCHEMA_FLAW_H
#define TESTS_SCHEMA_FLAW_H

#include <jansson.h>

/* Returns what is wrong with the schema and where, or NULL. "$ref" is looked up in `document`; the
 * schema that a reference leads to is not checked again. */
const char *schema_flaw(const json_t *document, const json_t *schema);

/* Returns the first flaw of any schema inside `part`: the values of members named "schema". */
const char *schema_flaw_inside(const json_t *document, const json_t *part);

#endif
