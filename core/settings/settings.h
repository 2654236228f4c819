/*
 * Settings: one YAML file, read to a tree that remembers its lines, then bound section by section
 * by tables of struct bb_field. Whatever is wrong is gathered, so that one look at the output shows
 * every mistake of a file: "busbar.yaml:12: http.loops: must be between 0 and 256".
 *
 * The tree and all values belong to the arena that settings_load() is given (a generation's). They
 * are written by one thread while the generation is built, and only read afterwards, from any.
 *
 * Taken from YAML: mappings, sequences, scalars, comments. Refused: duplicate keys, anchors and
 * aliases, tags, several documents. ${NAME} in a value is the environment's NAME, ${NAME:-text}
 * is text where NAME is not set or empty; $${ is a plain ${. A problem never holds a value, which
 * may be secret.
 */
#ifndef CORE_SETTINGS_H
#define CORE_SETTINGS_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include <busbar/field.h>

#include "core/base/arena.h"

#define SETTINGS_DEPTH_MAX 16
#define SETTINGS_SIZE_MAX ((size_t)1024 * 1024) /* bytes */
#define SETTINGS_ENTRIES_MAX 4096               /* of one mapping or sequence */

/* Name of the section that holds the scalars at the top of the file. */
#define SETTINGS_ROOT ""

struct settings;
struct setting_section;

/* What is wrong with a configuration. Zero it before use; independent of any arena. */
struct setting_problems {
    char **lines; /* each without a newline; NULL where memory ran out */
    size_t count; /* 0: all is well */
    size_t room;
    char **warnings; /* worth a look, but no reason to refuse */
    size_t warning_count, warning_room;
};

BB_PRINTF(2, 3) void setting_problem(struct setting_problems *problems, const char *format, ...);
BB_PRINTF(2, 3) void setting_warning(struct setting_problems *problems, const char *format, ...);

/* Writes the lines of the problems, without the warnings. */
void setting_errors_print(const struct setting_problems *problems, FILE *out);

/* Writes all lines, warnings with "warning: " in front. */
void setting_problems_print(const struct setting_problems *problems, FILE *out);
void setting_problems_free(struct setting_problems *problems);

/*
 * Reads a file. What is wrong is added to `problems`; NULL only where nothing can be made of the
 * file (not to be read, bad YAML) or memory ran out.
 */
struct settings *settings_load(struct arena *arena, const char *path,
                               struct setting_problems *problems);

/* The same from a descriptor that settings_copy() gave once, which stays the caller's. */
struct settings *settings_load_copy(struct arena *arena, const char *path, int copy,
                                    struct setting_problems *problems);

/* The bytes that were read, in memory, for as long as the arena lives; -1: they are not kept. */
int settings_copy(const struct settings *settings);

/*
 * Checks a section against its table of fields and keeps the values; an absent section takes the
 * defaults. `section` and the table must outlive the settings. Returns the section, for the getters
 * below; NULL when problems were added, here or for one of its values when the file was read.
 */
const struct setting_section *settings_bind(struct settings *settings, const char *section,
                                            const struct bb_table *fields,
                                            struct setting_problems *problems);

/* Marks a section as known without reading it (that of a module that could not be loaded). */
void settings_claim(struct settings *settings, const char *section);

/* Whether an installed module has this name. */
typedef bool settings_is_module(const void *arg, const char *name);

/*
 * Reports every key at the top of the file that nobody has bound or claimed: as a warning where
 * is_module (may be NULL) says that it belongs to a module that is installed but not loaded, else
 * as a problem.
 */
void settings_unknown(struct settings *settings, settings_is_module *is_module, const void *arg,
                      struct setting_problems *problems);

/*
 * Adds a problem for each setting that only a restart can change (BB_RESTART) and that differs from
 * the live settings. Sections that are not in both are passed over.
 */
void settings_fit(const struct settings *settings, const struct settings *live,
                  struct setting_problems *problems);

/*
 * Prints all sections that were bound as YAML, with the defaults of what the file leaves out, and
 * "(hidden)" for each secret that is not empty. 0, or -1 without memory.
 */
int settings_print(const struct settings *settings, FILE *out);

/* Line of a setting, or of its section, or 0 where neither stands in the file. */
unsigned settings_line(const struct settings *settings, const char *section, const char *name);

/* Adds "file:line: section.name: reason", with what of it is known. */
BB_PRINTF(5, 6)
void settings_complain(const struct settings *settings, struct setting_problems *problems,
                       const char *section, const char *name, const char *format, ...);

/* The file as it was named, and the directory it lies in ("." for a bare name). Borrowed. */
const char *settings_path(const struct settings *settings);
const char *settings_directory(const struct settings *settings);

/* The section of that name once bound; NULL otherwise. */
const struct setting_section *settings_section(const struct settings *settings,
                                               const char *section);

/*
 * Values, borrowed. Asking for a section or name that is not declared, or for another type,
 * aborts. Absent without a default: NULL or 0.
 */
const char *settings_text(const struct settings *settings, const char *section, const char *name);
int64_t settings_int(const struct settings *settings, const char *section, const char *name);
double settings_number(const struct settings *settings, const char *section, const char *name);
json_t *settings_json(const struct settings *settings, const char *section, const char *name);

/* The unit of time that a setting counts, as "seconds"; NULL: none. */
const char *setting_unit(const struct bb_field *field);

/* Whether a setting is declared and can be asked for as: 't'ext, 'i'nteger, 'n'umber, 'j'son. */
bool section_has(const struct setting_section *section, const char *name, char as);
const char *section_text(const struct setting_section *section, const char *name);
int64_t section_int(const struct setting_section *section, const char *name);
double section_number(const struct setting_section *section, const char *name);
json_t *section_json(const struct setting_section *section, const char *name);

/* A struct of `size` bytes with the values that are bound to it (struct bb_bind), in the arena of
 * the settings. NULL without memory. */
const void *section_struct(const struct settings *settings, const struct setting_section *section,
                           size_t size);

#endif
