/*
 * Checks queries ("a=1&b=2") against a table of fields, and reads form bodies of the same syntax.
 * If a parameter occurs twice, the last one is used. Undeclared names are ignored and listed.
 * Results are in the arena; one thread at a time.
 */
#ifndef CORE_QUERY_H
#define CORE_QUERY_H

#include <jansson.h>

#include "core/lib/field.h"
#include "core/lib/json.h"

struct query_value {
    const char *name;  /* of the field, also if the alias was used */
    const char *value; /* decoded, checked and normalized */
};

struct query_values {
    struct query_value *list;
    size_t count;
    /*
     * The undeclared names, such as "a, b", percent-encoded for use in a header; at most
     * QUERY_IGNORED_MAX bytes, followed by ", ..." if names were omitted. NULL: none.
     */
    char *ignored;
};

#define QUERY_IGNORED_MAX 1024

/*
 * Fills *values from a raw query (NULL: none). Returns 0; -1 after adding problems, or without
 * adding any if memory ran out.
 */
int query_check(const struct bb_table *fields, const char *raw, struct arena *arena,
                struct query_values *values, struct problems *problems);

/* Returns the value of a parameter; NULL if absent. */
const char *query_get(const struct query_values *values, const char *name);

/*
 * Parses an application/x-www-form-urlencoded body to an object with strings, which the caller
 * owns. Returns NULL with *problem for invalid encoding, duplicate names, or more than 1,000 pairs.
 */
json_t *form_read(const char *bytes, size_t length, struct json_problem *problem);

#endif
