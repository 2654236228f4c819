/*
 * Checks values against tables of struct bb_field: bodies, path segments, query parameters,
 * settings and options. The result is normalized and contains only declared fields.
 *
 * Problems are collected in a list, worded for the client; they never contain the value. Results
 * are allocated in the arena of the list. No function blocks; one thread at a time.
 *
 * Settings and options must match their rows exactly. Requests are read more tolerantly where that
 * is safe: decimal strings for numbers, whole numbers for strings, and blanks around values. Empty
 * values of fields that are not required count as absent (see enum bb_field_flags).
 */
#ifndef CORE_FIELD_H
#define CORE_FIELD_H

#include <busbar/field.h>

#include <jansson.h>
#include <stdarg.h>

#include "core/lib/arena.h"
#include "core/lib/json.h"

#define PROBLEMS_MAX 64

/* The code of a problem, for programs, and its text, for people. */
struct problem_row {
    const char *code;
    /*
     * Contains a {name} for each parameter. {limit} is a whole number. {allowed}, at the end, is a
     * list of values separated by ", ". Other parameters are numbers or texts. After the number 1,
     * a noun (a word of four letters or more) loses the s of the plural.
     */
    const char *text;
};

/*
 * problem_rows[BB_TEXT] is the problem of a value that is not a string, and so on for each enum
 * bb_type (from 1). Rows for other problems follow. The last row has NULL as code.
 */
extern const struct problem_row problem_rows[];

struct problem {
    const char *field; /* "reads[3].value", in the client's spelling */
    const char *text;  /* "must be a whole number" */
};

struct problems {
    struct arena *arena;
    struct problem *list;
    size_t count; /* at most PROBLEMS_MAX; further ones are dropped */
    /* NULL: strict; otherwise values such as "5" for 5 are accepted, and warnings are added */
    json_t **warnings;
};

/*
 * Adds a problem with a text that lives as long as the arena, such as "is required". If memory runs
 * out, the problem is dropped, so rely on the result of a check, not on the number of problems.
 */
void problems_add(struct problems *problems, const char *field, const char *text);

/* Appends {"field","problem"} to `list` for each problem. */
void problems_list(const struct problems *problems, json_t *list);

/*
 * If the object has no `code` yet, finds the problem_row that matches the text in `member`
 * ("problem" or, in the body of an error, "message"), and adds the `code` and any `params`. So text
 * and code always match, even if a module wrote the text.
 */
void problem_set_code(json_t *object, const char *member);

/* Returns a row of a host's table, or of a module's table copied by module_descriptor_copy(). */
static inline const struct bb_field *field_at(const struct bb_table *fields, size_t index)
{
    return &((const struct bb_field *)fields->rows)[index];
}

/* Returns the row with this name or alias; NULL: none. */
const struct bb_field *field_find(const struct bb_table *fields, const char *name);

/*
 * Returns a new object, owned by the caller, with the declared fields of `object`, which may be any
 * JSON value or NULL (absent). Renames aliases; if an object has both the name and the alias, the
 * name takes precedence. Returns NULL after adding problems, or without adding any if memory ran
 * out.
 */
json_t *fields_check(const struct bb_table *fields, json_t *object, struct problems *problems);

/*
 * Checks and normalizes a value given as text: a segment, a parameter, an option. BB_INT is decimal
 * digits with an optional minus; BB_BOOL "true" or "false"; BB_LIST, BB_OBJECT and BB_ANY are JSON.
 * If `text` is NULL (absent), returns NULL, and adds a problem only for a required field. Otherwise
 * returns the normalized text; NULL after adding a problem, or without a problem if memory ran out.
 */
const char *field_check_text(const struct bb_field *field, const char *text, struct arena *arena,
                             struct problems *problems);

/*
 * Converts a text to JSON of the field's type, such as "5" to 5; the text of a list or an object
 * must be JSON. Checks only the type. The caller owns the result. Returns NULL if the text does not
 * have the type, or memory ran out.
 */
json_t *field_json(const struct bb_field *field, const char *text);

/*
 * Warnings are texts about ignored or changed input, without values of the input. The JSON object
 * of a response has the texts in `warnings`, and the fields and codes in `warningDetails`.
 */
#define WARNINGS_MAX 64 /* further ones are dropped */

/*
 * Adds a text to the array *warnings (NULL: none yet), unless it contains the text already. Returns
 * 0, or -1 if memory ran out.
 */
BB_PRINTF(2, 3) int warnings_add(json_t **warnings, const char *format, ...);
BB_PRINTF(2, 0) int warnings_vadd(json_t **warnings, const char *format, va_list args);

/*
 * Checks queries ("a=1&b=2") against a table of fields, and reads form bodies of the same syntax.
 * If a parameter of a query occurs twice, the last one is used. `ignored` lists undeclared names.
 * Results are in the arena; one thread at a time.
 */

struct query_value {
    const char *name;  /* the field's name, even if the alias was sent */
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
