/* Checks single values against their rows, and names their places. Private to field.c. */
#ifndef CORE_FIELD_VALUE_H
#define CORE_FIELD_VALUE_H

#include "core/lib/field.h"

/* The place of a value; converted to a name like "reads[3].value" only for a problem. */
struct place {
    const struct place *up; /* NULL: a member of the outermost object */
    const char *name;       /* NULL: item `index` of the list `up` */
    size_t index;
};

/* Adds a problem with a place. */
BB_PRINTF(3, 4)
void place_problem(const struct place *place, struct problems *problems, const char *format, ...);

/* Warns that a value at a place was ignored; no effect if memory runs out. */
void place_warn(const struct place *place, struct problems *problems, const char *what);

/* Whether blanks around a text of this row may be removed. */
bool field_trims(const struct bb_field *field, const struct problems *problems);

/* Whether an empty text is treated as absent. */
bool field_empty_is_absent(const struct bb_field *field, const struct problems *problems,
                           const char *text);

/* fields_check() of an object at a place (NULL: the outermost). */
json_t *fields_object(const struct bb_table *fields, json_t *object, const struct place *place,
                      struct problems *problems);

/* Returns a new reference to the normalized value; NULL after a problem, or if memory ran out. */
json_t *field_value(const struct bb_field *field, json_t *value, const struct place *place,
                    struct problems *problems);

/*
 * Like field_value(), for types whose values are strings; returns `text` itself or a text in
 * `arena`.
 */
const char *field_string(const struct bb_field *field, const char *text, struct arena *arena,
                         const struct place *place, struct problems *problems);

/* Whether the bounds are respected; otherwise adds a problem. */
bool field_int_fits(const struct bb_field *field, int64_t number, const struct place *place,
                    struct problems *problems);
bool field_number_fits(const struct bb_field *field, double number, const struct place *place,
                       struct problems *problems);

enum { EMAIL_MAX = 254 }; /* bytes */

/*
 * Returns an e-mail address as it is stored and compared: the local part case-folded, the domain in
 * lower case as an A-label. `text` is trimmed and was accepted by unicode_problem(). The result is
 * in `arena`. NULL: not an e-mail address (*invalid), or out of memory.
 */
const char *email_normal(const char *text, struct arena *arena, bool *invalid);

#endif
