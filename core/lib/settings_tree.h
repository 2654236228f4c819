/*
 * Internals of settings.h: the tree of a YAML file, and the bound sections. For settings*.c only.
 * Everything is in the arena of the settings.
 */
#ifndef CORE_SETTINGS_TREE_H
#define CORE_SETTINGS_TREE_H

#include <stdarg.h>
#include <stdbool.h>

#include "core/lib/settings.h"
#include "core/lib/settings_struct.h"

enum node_kind { NODE_SCALAR = 1, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    unsigned line;    /* of the key if there is one, otherwise of the value */
    bool plain;       /* scalar without quotes: may be a number, null… */
    bool broken;      /* scalar that was already reported */
    const char *key;  /* in a mapping */
    const char *text; /* scalar, with ${…} replaced */
    struct node *first, *last, *next;
    size_t count; /* children */
};

struct setting_section {
    const char *name;
    const struct node *node; /* NULL: not in the file */
    struct setting_value *values;
    size_t count;
    struct setting_section *next;
};

struct settings {
    struct arena *arena;
    const char *path, *directory;
    struct node *root; /* a mapping */
    struct setting_section *sections;
};

/* Reads `length` bytes of YAML into settings->root. Returns 0, or -1 with a problem added. */
int settings_parse(struct settings *settings, const char *bytes, size_t length,
                   struct setting_problems *problems);

/* Replaces ${NAME} in the text; NULL with a problem added. `where` names the setting. */
const char *settings_expand(const struct settings *settings, const char *text, unsigned line,
                            const char *where, struct setting_problems *problems);

/*
 * Adds the problem "file:line: section.name: …"; without the line if it is 0, without a name if it
 * is NULL.
 */
BB_PRINTF(6, 0)
void settings_complain_at(const struct settings *settings, struct setting_problems *problems,
                          unsigned line, const char *section, const char *name, const char *format,
                          va_list args);

/*
 * Converts a number with another unit ("5s") to a plain number in the setting's own unit, if it is
 * one; otherwise returns the text itself. In the arena; NULL if memory ran out.
 */
const char *setting_time(const struct bb_field *field, const char *text, struct arena *arena);

/* Returns the child of a mapping; NULL: none, or not a mapping. */
struct node *node_child(const struct node *map, const char *key);

/* Whether it is empty: null, ~ or no text at all, without quotes. */
bool node_null(const struct node *node);

/* Whether a scalar in it was reported when it was read. */
bool node_broken(const struct node *node);

/* Returns "text", "a list" or "a mapping", for messages. */
const char *node_kind_text(const struct node *node);

/*
 * Converts the value to JSON with the type of `field` (NULL: by YAML's rules) if possible; other
 * values are left for fields_check(). Unknown members of declared objects are problems. The caller
 * owns the result; NULL with a problem added, or if memory ran out.
 */
json_t *node_json(const struct settings *settings, const struct node *node,
                  const struct bb_field *field, const char *where,
                  struct setting_problems *problems);

#endif
