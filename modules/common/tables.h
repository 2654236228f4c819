/*
 * Parts of modules' tables: the response {"success":true}, parameters of lists, and rows of a table
 * of settings. Each setting is bound to the member with its name in a struct. The module defines
 * the macro SETTINGS as this struct before it uses these macros.
 */
#ifndef COMMON_TABLES_H
#define COMMON_TABLES_H

#include <busbar/field.h>

static const struct bb_field success_reply[] = {
    {.name = "success", .type = BB_BOOL, .flags = BB_REQUIRED},
};

/* For `errors` of a route. 404 means that an object other than the one in the path is missing. */
static const int conflict[] = {409, 0}, conflict_or_absent[] = {404, 409, 0};

/* clang-format off */

/* The members of a problem in a response, which concerns a row of a file or a reading. */
static const struct bb_field problem_fields[] = {
    {.name = "field", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "value",
     .help = "The column or member; empty if the problem concerns the whole row."},
    {.name = "problem", .type = BB_TEXT, .flags = BB_REQUIRED, .example = "must be a number"},
    {.name = "code", .type = BB_TEXT, .example = "not_a_number",
     .help = "The problem for programs, in `errors` of requests, too. Absent for other problems."},
    {.name = "params", .type = BB_OBJECT, .help = "The parameters of the code, if it has any."},
};

/* Options of the command `MODULE doctor`, which checks the files that a module has stored. */
static const struct bb_field doctor_options[] = {
    {.name = "all", .type = BB_BOOL, .help = "Check all files, not only 50,000 of them."},
};

/* clang-format on */

#define NULLABLE (BB_REQUIRED | BB_NULLABLE) /* a member that is always there, but may be null */

#define QUERY_LIMIT(most, text)                                                                    \
    {                                                                                              \
        .name = "limit", .type = BB_INT, .min = 1, .max = (most), .help = (text)                   \
    }
/* The arguments are the members of the field that describe its type, such as .type and .max. */
#define QUERY_AFTER(...)                                                                           \
    {                                                                                              \
        .name = "after", __VA_ARGS__,                                                              \
        .help = "Cursor. Take it from the `Link` header of the previous page."                     \
    }
#define QUERY_ORGANIZATION(text)                                                                   \
    {                                                                                              \
        .name = "organizationId", .type = BB_INT, .min = 1, .max = INT64_MAX, .help = (text)       \
    }

#define SETTING(key, text) .name = #key, .bind = BB_BIND(SETTINGS, key), .help = (text)

#define SETTING_TEXT(key, bits, most, preset, text)                                                \
    {                                                                                              \
        .type = BB_TEXT, .flags = (bits), .max = (most), .fallback = (preset), SETTING(key, text)  \
    }

/* `unit` is a flag such as BB_SECONDS, or 0. */
#define SETTING_INT(key, unit, least, most, preset, text)                                          \
    {                                                                                              \
        .type = BB_INT, .flags = (unit), .min = (least), .max = (most), .fallback = (preset),      \
        SETTING(key, text)                                                                         \
    }

#define SETTING_BOOL(key, preset, text)                                                            \
    {                                                                                              \
        .type = BB_BOOL, .fallback = (preset), SETTING(key, text)                                  \
    }

/* `among` is a list of texts that ends with NULL. */
#define SETTING_CHOICE(key, among, preset, text)                                                   \
    {                                                                                              \
        .type = BB_CHOICE, .choices = (among), .fallback = (preset), SETTING(key, text)            \
    }

#endif
