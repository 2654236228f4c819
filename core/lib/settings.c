#include "core/lib/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/lib/settings_tree.h"

struct node *node_child(const struct node *map, const char *key)
{
    if (!map || map->kind != NODE_MAP)
        return NULL;
    for (struct node *child = map->first; child; child = child->next)
        if (!strcmp(child->key, key))
            return child;
    return NULL;
}

bool node_null(const struct node *node)
{
    return node->kind == NODE_SCALAR && node->plain &&
           (!*node->text || !strcmp(node->text, "~") || !strcmp(node->text, "null"));
}

bool node_broken(const struct node *node)
{
    bool broken = node->broken;

    for (const struct node *child = node->first; child && !broken; child = child->next)
        broken = node_broken(child);
    return broken;
}

const char *node_kind_text(const struct node *node)
{
    if (node->kind == NODE_LIST)
        return "a list";
    return node->kind == NODE_MAP ? "a mapping" : "text";
}

/* Reads a regular file, up to the size limit; NULL with a problem. */
static char *read_all(struct arena *arena, int fd, const char *path, size_t *length,
                      struct setting_problems *problems)
{
    char *bytes = arena_alloc(arena, SETTINGS_SIZE_MAX + 1);
    ssize_t got = 1;

    *length = 0;
    while (bytes && got && *length <= SETTINGS_SIZE_MAX) {
        got = read(fd, bytes + *length, SETTINGS_SIZE_MAX + 1 - *length);
        if (got < 0) {
            setting_problem(problems, "%s: cannot be read: %s", path, strerror(errno));
            return NULL;
        }
        *length += (size_t)got;
    }
    if (!bytes)
        setting_problem(problems, "%s: out of memory", path);
    if (*length <= SETTINGS_SIZE_MAX)
        return bytes;
    setting_problem(problems, "%s: is larger than %zu bytes", path, SETTINGS_SIZE_MAX);
    return NULL;
}

/*
 * Returns -1 with a problem. Without O_NONBLOCK a pipe that nobody writes to would block the
 * caller, and with it a reload and a later stop.
 */
static int open_regular(const char *path, struct setting_problems *problems)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat about;

    if (fd < 0 || fstat(fd, &about)) {
        setting_problem(problems, "%s: cannot be read: %s", path, strerror(errno));
    } else if (!S_ISREG(about.st_mode)) {
        setting_problem(problems, "%s: is not a regular file", path);
    } else {
        return fd;
    }
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Reads the file into a separate arena that does not stay with the generation. */
static int load_tree(struct settings *settings, struct arena *scratch,
                     struct setting_problems *problems)
{
    size_t length;
    int fd = open_regular(settings->path, problems);

    if (fd < 0)
        return -1;
    char *bytes = read_all(scratch, fd, settings->path, &length, problems);

    close(fd);
    return bytes ? settings_parse(settings, bytes, length, problems) : -1;
}

/* An empty file has no settings; everything except a mapping is an error. */
static int check_root(struct settings *settings, struct setting_problems *problems)
{
    if (!settings->root || node_null(settings->root)) {
        settings->root = arena_alloc(settings->arena, sizeof *settings->root);
        if (!settings->root) {
            setting_problem(problems, "%s: out of memory", settings->path);
            return -1;
        }
        settings->root->kind = NODE_MAP;
    }
    if (settings->root->kind == NODE_MAP)
        return 0;
    setting_problem(problems, "%s:%u: must be a mapping of sections", settings->path,
                    settings->root->line);
    return -1;
}

static const char *directory_of(struct arena *arena, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return ".";
    return slash == path ? "/" : arena_text(arena, path, (size_t)(slash - path));
}

struct settings *settings_load(struct arena *arena, const char *path,
                               struct setting_problems *problems)
{
    struct settings *settings = arena_alloc(arena, sizeof *settings);
    struct arena *scratch = settings ? arena_new() : NULL;

    if (!scratch) {
        setting_problem(problems, "%s: out of memory", path);
        return NULL;
    }
    settings->arena = arena;
    settings->path = arena_text(arena, path, strlen(path));
    settings->directory = directory_of(arena, path);
    int failed = -1;

    if (settings->path && settings->directory)
        failed = load_tree(settings, scratch, problems);
    else
        setting_problem(problems, "%s: out of memory", path);
    arena_free(scratch);
    return failed || check_root(settings, problems) ? NULL : settings;
}

const char *settings_path(const struct settings *settings)
{
    return settings->path;
}

const char *settings_directory(const struct settings *settings)
{
    return settings->directory;
}

const struct setting_section *settings_section(const struct settings *settings, const char *section)
{
    for (const struct setting_section *s = settings->sections; s; s = s->next)
        if (!strcmp(s->name, section))
            return s;
    return NULL;
}

static bool known(const struct settings *settings, const char *key)
{
    const struct setting_section *root = settings_section(settings, SETTINGS_ROOT);

    if (settings_section(settings, key))
        return true;
    for (size_t i = 0; root && i < root->count; i++)
        if (!strcmp(root->values[i].field->name, key))
            return true;
    return false;
}

void settings_unknown(struct settings *settings, settings_is_module *is_module, const void *arg,
                      struct setting_problems *problems)
{
    const char *idle = NULL; /* sections of installed modules that are not loaded */

    for (const struct node *child = settings->root->first; child; child = child->next) {
        if (known(settings, child->key))
            continue;
        if (is_module && is_module(arg, child->key))
            idle = arena_format(settings->arena, "%s%s%s (line %u)", idle ? idle : "",
                                idle ? ", " : "", child->key, child->line);
        else
            setting_problem(problems,
                            "%s:%u: unknown section \"%s\": it is neither a setting of busbar nor "
                            "an installed module",
                            settings->path, child->line, child->key);
    }
    if (idle)
        setting_warning(problems,
                        "%s: sections without effect, because their modules are not in `modules`: "
                        "%s",
                        settings->path, idle);
}

unsigned settings_line(const struct settings *settings, const char *section, const char *name)
{
    const struct node *parent = *section ? node_child(settings->root, section) : settings->root;
    const struct node *node = parent && name ? node_child(parent, name) : NULL;

    return node ? node->line : parent ? parent->line : 0;
}

void settings_complain_at(const struct settings *settings, struct setting_problems *problems,
                          unsigned line, const char *section, const char *name, const char *format,
                          va_list args)
{
    char reason[512], place[32] = "";

    vsnprintf(reason, sizeof reason, format, args);
    if (line)
        snprintf(place, sizeof place, ":%u", line);
    setting_problem(problems, "%s%s: %s%s%s: %s", settings->path, place, section,
                    *section && name ? "." : "", name ? name : "", reason);
}

void settings_complain(const struct settings *settings, struct setting_problems *problems,
                       const char *section, const char *name, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    settings_complain_at(settings, problems, settings_line(settings, section, name), section, name,
                         format, args);
    va_end(args);
}

/* Reading an undeclared setting is a bug in the program, found by its first test. */
_Noreturn static void undeclared(const char *section, const char *name, const char *what)
{
    fprintf(stderr, "busbar: setting %s.%s is not declared%s\n", section, name, what);
    abort();
}

static const struct setting_value *value_of(const struct setting_section *section, const char *name)
{
    for (size_t i = 0; i < section->count; i++)
        if (!strcmp(section->values[i].field->name, name))
            return &section->values[i];
    undeclared(section->name, name, "");
}

bool section_has(const struct setting_section *section, const char *name, char as)
{
    for (size_t i = 0; section && i < section->count; i++) {
        enum bb_type type = section->values[i].field->type;

        if (strcmp(section->values[i].field->name, name) != 0)
            continue;
        if (as == 't')
            return type < BB_OBJECT;
        if (as == 'j')
            return type >= BB_OBJECT;
        return type == BB_INT || (as == 'i' ? type == BB_BOOL : type == BB_NUMBER);
    }
    return false;
}

const char *section_text(const struct setting_section *section, const char *name)
{
    const struct setting_value *value = value_of(section, name);

    if (value->field->type >= BB_OBJECT)
        undeclared(section->name, name, " as text");
    return value->text;
}

int64_t section_int(const struct setting_section *section, const char *name)
{
    const struct setting_value *value = value_of(section, name);

    if (value->field->type != BB_INT && value->field->type != BB_BOOL)
        undeclared(section->name, name, " as a whole number or boolean");
    return value->integer;
}

double section_number(const struct setting_section *section, const char *name)
{
    const struct setting_value *value = value_of(section, name);

    if (value->field->type != BB_NUMBER && value->field->type != BB_INT)
        undeclared(section->name, name, " as a number");
    return value->number;
}

json_t *section_json(const struct setting_section *section, const char *name)
{
    const struct setting_value *value = value_of(section, name);

    if (value->field->type < BB_OBJECT)
        undeclared(section->name, name, " as a list or object");
    return value->json;
}

const void *section_struct(const struct settings *settings, const struct setting_section *section,
                           size_t size)
{
    void *members = arena_alloc(settings->arena, size);

    for (size_t i = 0; members && i < section->count; i++)
        settings_struct_store(&section->values[i], members);
    return members;
}

static const struct setting_section *bound(const struct settings *settings, const char *section,
                                           const char *name)
{
    const struct setting_section *found = settings_section(settings, section);

    if (!found)
        undeclared(section, name, "");
    return found;
}

const char *settings_text(const struct settings *settings, const char *section, const char *name)
{
    return section_text(bound(settings, section, name), name);
}

int64_t settings_int(const struct settings *settings, const char *section, const char *name)
{
    return section_int(bound(settings, section, name), name);
}

json_t *settings_json(const struct settings *settings, const char *section, const char *name)
{
    return section_json(bound(settings, section, name), name);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static const struct setting_value *find(const struct setting_section *section, const char *name)
{
    for (size_t i = 0; section && i < section->count; i++)
        if (!strcmp(section->values[i].field->name, name))
            return &section->values[i];
    return NULL;
}

static bool same(const struct setting_value *a, const struct setting_value *b)
{
    if (a->field->type >= BB_OBJECT)
        return json_equal(a->json, b->json) || a->json == b->json;
    return same_text(a->text, b->text);
}

/*
 * Finds settings with BB_RESTART that differ from the live settings, which a reload cannot change.
 */
void settings_fit(const struct settings *settings, const struct settings *live,
                  struct setting_problems *problems)
{
    for (const struct setting_section *at = settings->sections; at; at = at->next) {
        const struct setting_section *before = settings_section(live, at->name);

        for (size_t i = 0; i < at->count; i++) {
            const struct setting_value *value = &at->values[i];
            const struct setting_value *old = find(before, value->field->name);

            if (old && value->field->flags & BB_RESTART && !same(value, old))
                settings_complain(
                    settings, problems, at->name, value->field->name,
                    "cannot be changed by a reload: restart the host, or set it back");
        }
    }
}
