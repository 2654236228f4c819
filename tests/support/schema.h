/*
 * Validates values against the subset of JSON Schema that the reference uses. An unknown keyword,
 * type or format is a problem, too, so that no rule is silently ignored. In one respect this is
 * stricter than JSON Schema: an object that lists its members may not have others.
 */
#ifndef TESTS_SCHEMA_H
#define TESTS_SCHEMA_H

#include <jansson.h>

/* Returns what is wrong with `value` and where, or NULL. "$ref" is looked up in `document`. */
const char *schema_problem(const json_t *document, const json_t *schema, const json_t *value);

/* Returns the object that "#/a/b" refers to in the document, or NULL. Returns an object without
 * "$ref" unchanged. */
const json_t *schema_resolved(const json_t *document, const json_t *object);

/*
 * Returns what is wrong with the schema and where, or NULL: a keyword, type or format that is not
 * known, a name or reference that leads nowhere, an example or default that is not valid. The
 * schema that a reference leads to is not checked again.
 */
const char *schema_flaw(const json_t *document, const json_t *schema);

/* Returns the first flaw of any schema inside `part`: the values of members named "schema". */
const char *schema_flaw_inside(const json_t *document, const json_t *part);

#endif
