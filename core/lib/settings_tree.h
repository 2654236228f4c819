/*
 * Internals of settings.h: the tree of a YAML file, and the bound sections. For settings*.c only.
 * Everything is in the arena of the settings.
 */
#ifndef CORE_SETTINGS_TREE_H
#define CORE_SETTINGS_TREE_H

#include <stdbool.h>
#include <yaml.h>

#include "core/lib/settings.h"

struct setting_section {
    const char *name;
    const yaml_node_t *node; /* NULL: not in the file */
    unsigned line;
    struct setting_value *values;
    size_t count;
    struct setting_section *next;
};

/* Scalars have their variables replaced; those that could not be read have no value (NULL). */
struct settings {
    struct arena *arena;
    const char *path, *directory;
    yaml_document_t document;
    const yaml_node_t *root; /* a mapping; NULL: the file is empty */
    struct setting_section *sections;
    const struct host_settings *host;
};

/* A member of a mapping: its value (NULL: there is none), and the line of its key. */
struct member {
    const yaml_node_t *node;
    unsigned line;
};

struct member settings_member(const struct settings *settings, const yaml_node_t *map,
                              const char *key);
const yaml_node_t *settings_node(const struct settings *settings, int index);

/* Returns the text of a scalar. */
static inline const char *node_text(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

/* Whether it is empty: null, ~ or no text at all, without quotes. */
bool node_null(const yaml_node_t *node);

/* Returns "text", "a list" or "a mapping", for messages. */
const char *node_kind(const yaml_node_t *node);

#endif
