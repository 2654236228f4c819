/*
 * Settings: a YAML file, read into a tree with line numbers, then bound section by section by
 * tables of struct bb_field. All problems are collected, so that one run reports every error in a
 * file: "busbar.yaml:12: http.loops: must be between 0 and 256".
 *
 * The tree and all values belong to the arena that is passed to settings_load(), such as the arena
 * of a generation. One thread writes them; after that any thread may read them.
 *
 * Supported YAML: mappings, sequences, scalars, comments. Refused: duplicate keys, aliases, tags,
 * several documents. In a value, ${NAME} is replaced by the environment variable NAME,
 * ${NAME:-text} by the variable or, if it is not set or empty, by text, and $${ by a literal ${. A
 * problem never contains a value, which may be secret.
 *
 * field.c checks the values. settings.c builds the tree from the events of libyaml, because libyaml
 * accepts duplicate keys, aliases, tags and any depth, and does not replace variables.
 * host_fields.tsv has a row for each setting of the host, which is also a row in
 * docs/configuration.md.
 */
#ifndef CORE_SETTINGS_H
#define CORE_SETTINGS_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include <busbar/field.h>

#include "core/lib/arena.h"

#define SETTINGS_DEPTH_MAX 16
#define SETTINGS_SIZE_MAX ((size_t)1024 * 1024) /* bytes */
#define SETTINGS_ENTRIES_MAX 4096               /* per mapping or sequence */

/* Name of the section for settings outside of sections. */
#define SETTINGS_ROOT ""

struct setting_section;
struct setting_node;

/* The tree of a settings file, and the sections that have been bound. */
struct settings {
    const char *path;                 /* the file's name as given */
    const char *directory;            /* its directory; "." for a name without one */
    const struct host_settings *host; /* NULL before host_settings_bind() */
    struct arena *arena;
    const struct setting_node *root; /* a mapping; NULL: the file is empty */
    struct setting_section *sections;
};

/* The problems of a configuration. Zero it before use; free it with setting_problems_free(). */
struct setting_problems {
    char **lines;    /* without newlines; if memory ran out, the array or a line is NULL */
    size_t count;    /* 0: no problems */
    char **warnings; /* about settings that are unusual but accepted */
    size_t warning_count;
};

/* Add a problem or a warning, formatted like printf(). */
#define setting_problem(problems, ...)                                                             \
    setting_line_add(&(problems)->lines, &(problems)->count, __VA_ARGS__)
#define setting_warning(problems, ...)                                                             \
    setting_line_add(&(problems)->warnings, &(problems)->warning_count, __VA_ARGS__)
BB_PRINTF(3, 4) void setting_line_add(char ***lines, size_t *count, const char *format, ...);

/* Print each line after `prefix`, which is "" for problems and "warning: " for warnings. */
void setting_lines_print(char *const *lines, size_t count, const char *prefix, FILE *out);
void setting_problems_print(const struct setting_problems *problems, FILE *out);
void setting_problems_free(struct setting_problems *problems);

/*
 * Reads a file and adds errors to `problems`. Returns NULL only if the file is unusable (cannot be
 * read, invalid YAML) or memory ran out.
 */
struct settings *settings_load(struct arena *arena, const char *path,
                               struct setting_problems *problems);

/*
 * Checks a section against its table of fields and stores the values; an absent section has the
 * defaults. `section` and the table must outlive the settings. Returns the section for the
 * functions below; NULL after this function or settings_load() has added a problem.
 */
const struct setting_section *settings_bind(struct settings *settings, const char *section,
                                            const struct bb_table *fields,
                                            struct setting_problems *problems);

/* Makes settings_unknown() skip the section of a module that could not be loaded. */
void settings_claim(struct settings *settings, const char *section);

/* Returns whether an installed module has this name. */
typedef bool settings_is_module(const void *arg, const char *name);

/*
 * Reports every key at the top of the file that was neither bound nor claimed: as a warning if
 * is_module (may be NULL) finds an installed module with this name, otherwise as a problem.
 */
void settings_unknown(struct settings *settings, settings_is_module *is_module, const void *arg,
                      struct setting_problems *problems);

/*
 * Adds a problem for each setting that only a restart can change (BB_RESTART) and that differs from
 * the live settings. Skips sections that only `settings` or only `live` has bound.
 */
void settings_fit(const struct settings *settings, const struct settings *live,
                  struct setting_problems *problems);

/*
 * Prints all bound sections as YAML, with defaults for absent settings, and "(hidden)" for each
 * secret that is not empty. Returns 0, or -1 if memory ran out.
 */
int settings_print(const struct settings *settings, FILE *out);

/* Returns the line of a setting, or else of its section; 0 if neither is in the file. */
unsigned settings_line(const struct settings *settings, const char *section, const char *name);

/* Adds the problem "file:line: section.name: reason", without parts that are unknown. */
BB_PRINTF(5, 6)
void settings_complain(const struct settings *settings, struct setting_problems *problems,
                       const char *section, const char *name, const char *format, ...);

/* Returns the section with this name if it was bound or claimed; otherwise NULL. */
const struct setting_section *settings_section(const struct settings *settings,
                                               const char *section);

/* Returns the unit of a duration setting, such as "seconds"; NULL: none. */
const char *setting_unit(const struct bb_field *field);

/* A setting with its normalized value. */
struct setting_value {
    const struct bb_field *field;
    json_t *json; /* NULL: absent */
};

static inline int64_t setting_integer(const struct setting_value *value)
{
    return json_is_true(value->json) ? 1 : json_integer_value(value->json);
}

/*
 * Returns a setting if it is declared with the type `as`: 't'ext, 'i'nteger, 'n'umber or 'j'son;
 * otherwise NULL.
 */
const struct setting_value *section_value(const struct setting_section *section, const char *name,
                                          char as);

/* Stores the values of the section in the members of a struct to which they are bound (bb_bind). */
void section_store(const struct setting_section *section, void *members);

/*
 * Checks the binding of a row to a struct of `size` bytes. Returns the error, such as "is bound …";
 * NULL if the binding is correct or the row is not bound.
 */
const char *settings_bind_fault(const struct bb_table *settings, size_t row, size_t size);

#endif
