/*
 * Values against the part of JSON Schema that the reference uses. A keyword, a type or a format
 * that is unknown here is a problem, too: a schema that says more must not be taken for kept.
 * Stricter than JSON Schema in one thing: where an object names its members, it has no others.
 */
#ifndef TESTS_SCHEMA_H
#define TESTS_SCHEMA_H

#include <jansson.h>

/* What is wrong with `value` and where, or NULL. `document` is what "$ref" is looked up in. */
const char *schema_problem(const json_t *document, const json_t *schema, const json_t *value);

/* What "#/a/b" leads to in it, or NULL. Of an object without "$ref": itself. */
const json_t *schema_resolved(const json_t *document, const json_t *object);

#endif
