/*
 * Single values against their rows, and the names of their places. Private to field.c.
 */
#ifndef CORE_FIELD_VALUE_H
#define CORE_FIELD_VALUE_H

#include "core/field/field.h"

/* Where a value stands; turned into a name like "reads[3].value" only for a problem. */
struct place {
    const struct place *up; /* NULL: a member of the outermost object */
    const char *name;       /* NULL: item `index` of the list above */
    size_t index;
};

/* Adds a problem at a place. */
BB_PRINTF(3, 4)
void place_problem(const struct place *place, struct problems *problems, const char *format, ...);

/* Tells that a value at a place was passed over; without memory it is not told. */
void place_warn(const struct place *place, struct problems *problems, const char *what);

/* Whether text of this row may lose the blanks around it. */
bool field_trims(const struct bb_field *field, const struct problems *problems);

/* Whether an empty text is the same as none. */
bool field_empty_is_absent(const struct bb_field *field, const struct problems *problems,
                           const char *text);

/* fields_check() of an object at a place (NULL: the outermost). */
json_t *fields_object(const struct bb_table *fields, json_t *object, const struct place *place,
                      struct problems *problems);

/* A new reference to the value, normalised; NULL after a problem or without memory. */
json_t *field_value(const struct bb_field *field, json_t *value, const struct place *place,
                    struct problems *problems);

/* The same for the types whose values are strings; the result is `text` itself or in `arena`. */
const char *field_string(const struct bb_field *field, const char *text, struct arena *arena,
                         const struct place *place, struct problems *problems);

/* Whether bounds hold; adds the problem where they do not. */
bool field_int_fits(const struct bb_field *field, int64_t number, const struct place *place,
                    struct problems *problems);
bool field_number_fits(const struct bb_field *field, double number, const struct place *place,
                       struct problems *problems);

enum { EMAIL_MAX = 254 }; /* bytes */

/*
 * The e-mail address `text`, trimmed and without what unicode_problem() reports, as it is stored
 * and compared: its local part folded, its domain in lower case as an A-label. It is in `arena`.
 * NULL: it is not an e-mail address (*invalid), or memory ran out.
 */
const char *email_normal(const char *text, struct arena *arena, bool *invalid);

#endif
