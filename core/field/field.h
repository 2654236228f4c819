/*
 * Checks values against tables of struct bb_field: bodies, path segments, query parameters,
 * settings and options. What passes is handed over normalised and holds declared fields only.
 *
 * Problems gather in a list, in the words that the client reads; they never hold the value. Memory
 * is the arena's of the list. No function here blocks; all are for one thread at a time.
 *
 * Settings and options must be what their rows say. Requests are taken as clients send them, where
 * that costs no safety: decimal strings for numbers, whole numbers for strings, blanks around
 * values, and what is empty for absent, where it is not required (see enum bb_field_flags).
 */
#ifndef CORE_FIELD_H
#define CORE_FIELD_H

#include <busbar/field.h>
#include <jansson.h>

#include "core/base/arena.h"
#include "core/field/warning.h"

#define PROBLEMS_MAX 64

struct problem {
    const char *field; /* "reads[3].value", as the client named it */
    const char *text;  /* "must be a whole number" */
};

struct problems {
    struct arena *arena;
    struct problem *list;
    size_t count; /* at most PROBLEMS_MAX; further ones are not kept */
    /* where to tell what was passed over, if values are taken as clients send them; else NULL */
    json_t **warnings;
};

/* Adds a problem. Without memory it is not kept, so trust the result of a check, not the count. */
BB_PRINTF(3, 4)
void problems_add(struct problems *problems, const char *field, const char *format, ...);

/* Appends {"field","problem"} of each to a list. */
void problems_list(const struct problems *problems, json_t *list);

/* Row `index` of a table of fields. *room is used where the module knew a smaller row. */
const struct bb_field *field_at(const struct bb_table *fields, size_t index, struct bb_field *room);

/* The row of this name or alias; NULL: none. */
const struct bb_field *field_find(const struct bb_table *fields, const char *name,
                                  struct bb_field *room);

/*
 * A new object of the declared fields of `object` (borrowed; any JSON value, NULL as absent), the
 * caller's. Aliases are renamed; where both are there the name wins. NULL: problems were found;
 * with none added, memory ran out.
 */
json_t *fields_check(const struct bb_table *fields, json_t *object, struct problems *problems);

/* Adds the fields that no row declares, as they were sent. 0, or -1 without memory. */
int fields_keep_others(const struct bb_table *fields, json_t *object, json_t *checked);

/*
 * One value as text, normalised: a segment, a parameter, an option. BB_INT is decimal digits with
 * an optional minus; BB_BOOL "true" or "false"; BB_LIST, BB_OBJECT and BB_ANY are JSON. NULL text
 * is absent: NULL comes back, with a problem only for a required field. Otherwise NULL means
 * that a problem was found, or, with none added, that memory ran out.
 */
const char *field_check_text(const struct bb_field *field, const char *text, struct arena *arena,
                             struct problems *problems);

#endif
