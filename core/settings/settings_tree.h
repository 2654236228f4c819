/*
 * The inside of settings.h: the tree of a YAML file, and what has been bound of it. For settings*.c
 * only. Everything lies in the arena of the settings.
 */
#ifndef CORE_SETTINGS_TREE_H
#define CORE_SETTINGS_TREE_H

#include <stdarg.h>
#include <stdbool.h>

#include "core/field/settings_struct.h"
#include "core/settings/settings.h"

enum node_kind { NODE_SCALAR = 1, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    unsigned line;    /* of the key where there is one, else of the value */
    bool plain;       /* scalar without quotes: may be a number, null… */
    bool broken;      /* scalar that has been complained of already */
    const char *key;  /* in a mapping */
    const char *text; /* scalar, ${…} replaced */
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
    int copy;          /* of the file's bytes, in memory; -1: there is none */
    struct node *root; /* a mapping */
    struct setting_section *sections;
};

/* Reads `length` bytes of YAML to settings->root. 0, or -1 with a problem added. */
int settings_parse(struct settings *settings, const char *bytes, size_t length,
                   struct setting_problems *problems);

/* The text with ${NAME} replaced; NULL with a problem added. `where` names the setting. */
const char *settings_expand(const struct settings *settings, const char *text, unsigned line,
                            const char *where, struct setting_problems *problems);

/*
 * Adds the problem "file:line: section.name: …"; without the line where it is 0, without a name
 * where that is NULL.
 */
BB_PRINTF(6, 0)
void settings_complain_at(const struct settings *settings, struct setting_problems *problems,
                          unsigned line, const char *section, const char *name, const char *format,
                          va_list args);

/*
 * The text as a plain number in the setting's own unit, where it is one with another ("5s") that
 * can be that; else the text itself. In the arena; NULL without memory.
 */
const char *setting_time(const struct bb_field *field, const char *text, struct arena *arena);

/* The child of a mapping; NULL: none, or no mapping. */
struct node *node_child(const struct node *map, const char *key);

/* Whether it stands for nothing: null, ~ or no text at all, without quotes. */
bool node_null(const struct node *node);

/* Whether a scalar in it was complained of when it was read. */
bool node_broken(const struct node *node);

/* "text", "a list", "a mapping": for messages. */
const char *node_kind_text(const struct node *node);

/*
 * The value as JSON, typed as `field` (NULL: as YAML would have it) asks where it can be; what does
 * not fit is left for fields_check(). Unknown members of declared objects are problems. The
 * caller's; NULL with a problem added or for want of memory.
 */
json_t *node_json(const struct settings *settings, const struct node *node,
                  const struct bb_field *field, const char *where,
                  struct setting_problems *problems);

#endif
