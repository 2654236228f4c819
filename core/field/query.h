/*
 * Queries ("a=1&b=2") against a table of fields, and form bodies of the same syntax. Of a parameter
 * that is given twice the last one counts; undeclared names are ignored, and listed. What is
 * returned belongs to the arena; one thread at a time.
 */
#ifndef CORE_QUERY_H
#define CORE_QUERY_H

#include <jansson.h>

#include "core/base/json_in.h"
#include "core/field/field.h"

struct query_value {
    const char *name;  /* of the field, also where the alias was used */
    const char *value; /* decoded, checked and normalised */
};

struct query_values {
    struct query_value *list;
    size_t count;
    /*
     * Names that no row declares, "a, b", fit for a header: percent-encoded, and at most
     * QUERY_IGNORED_MAX bytes, with ", ..." behind them where there were more. NULL: none.
     */
    char *ignored;
};

#define QUERY_IGNORED_MAX 1024

/*
 * Fills *values from a raw query (NULL: none). 0; or -1 with problems added; or -1 with none when
 * memory ran out.
 */
int query_check(const struct bb_table *fields, const char *raw, struct arena *arena,
                struct query_values *values, struct problems *problems);

/* NULL: absent. */
const char *query_get(const struct query_values *values, const char *name);

/*
 * An application/x-www-form-urlencoded body as an object of strings, the caller's. NULL with
 * *problem filled for bad encoding, a name given twice, or over 1,000 pairs.
 */
json_t *form_read(const char *bytes, size_t length, struct json_problem *problem);

#endif
