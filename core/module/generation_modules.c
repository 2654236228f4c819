/* Loads the configured modules, see generation_load.h. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/module/generation_load.h"
#include "core/module/module_validate.h"
#include "core/module/sandbox.h"
#include "core/module/service_order.h"

/*
 * Relative paths start at the file's directory. The result always contains a slash, as dlopen()
 * requires.
 */
static const char *from_directory(const struct generation *g, const char *path)
{
    const char *directory = settings_directory(g->settings);

    if (*path == '/' || (!strcmp(directory, ".") && !strncmp(path, "./", 2)))
        return path;
    return arena_format(g->arena, "%s/%s", directory, path);
}

static const char *module_path(const struct generation *g, const char *entry)
{
    const char *directory = settings_text(g->settings, SETTINGS_ROOT, "module_path");

    if (strchr(entry, '/'))
        return from_directory(g, entry);
    directory = directory ? from_directory(g, directory) : NULL;
    return directory ? arena_format(g->arena, "%s/%s.so", directory, entry) : NULL;
}

bool generation_is_installed(const void *generation, const char *name)
{
    const struct generation *g = generation;
    const char *path = strchr(name, '/') ? NULL : module_path(g, name);

    return path && !access(path, R_OK);
}

/* The section of a module that could not be loaded must not be reported as well. */
static void claim_section(const struct generation *g, const char *entry)
{
    const char *slash = strrchr(entry, '/');
    const char *base = slash ? slash + 1 : entry;
    const char *name = arena_text(g->arena, base, strcspn(base, "."));

    if (name)
        settings_claim(g->settings, name);
}

/* Whether the module directory is needed and invalid, which was reported already. */
static bool no_directory(const struct generation *g, const char *entry)
{
    return !strchr(entry, '/') && !settings_text(g->settings, SETTINGS_ROOT, "module_path");
}

static void load_entry(struct generation *g, const char *entry, struct setting_problems *problems)
{
    if (no_directory(g, entry)) {
        claim_section(g, entry);
        return;
    }
    const char *where = arena_format(g->arena, "%s:%u: modules", settings_path(g->settings),
                                     settings_line(g->settings, SETTINGS_ROOT, "modules"));
    const char *path = module_path(g, entry);
    struct core_module *module = &g->modules[g->module_count];

    if (!where || !path) {
        setting_problem(problems, "%s: out of memory", settings_path(g->settings));
        return;
    }
    struct setting_problems own = {0};
    bool leave_out = generation_leaves_refused_out(g);

    sandbox_file(path);
    if (!module_load(module, g->arena, path, where, leave_out ? &own : problems)) {
        g->module_count++;
    } else {
        memset(module, 0, sizeof *module);
        claim_section(g, entry);
        if (leave_out)
            generation_leave_out(g, entry, "its file is refused");
    }
    setting_problems_free(&own);
}

/* Sorts the modules by their services; after a problem they keep the configured order. */
static void reorder(struct generation *g, struct setting_problems *problems)
{
    size_t *order = calloc(g->module_count + 1, sizeof *order);
    struct core_module *copy = arena_alloc(g->arena, (g->module_count + 1) * sizeof *copy);

    if (!order || !copy)
        setting_problem(problems, "%s: out of memory", settings_path(g->settings));
    else if (!service_order(g->modules, g->module_count, order, problems)) {
        for (size_t i = 0; i < g->module_count; i++)
            copy[i] = g->modules[order[i]];
        g->modules = copy;
    }
    free(order);
}

static void bind_settings(struct generation *g, struct core_module *module,
                          struct setting_problems *problems)
{
    module->handle.generation = g;
    module->handle.module = module;
    if (!settings_section(g->settings, module->descriptor->name))
        module->handle.settings = settings_bind(g->settings, module->descriptor->name,
                                                &module->descriptor->settings, problems);
}

void generation_load_modules(struct generation *g, struct setting_problems *problems)
{
    json_t *entries = settings_json(g->settings, SETTINGS_ROOT, "modules");
    size_t count = json_array_size(entries);

    g->modules = arena_alloc(g->arena, (count + 1) * sizeof *g->modules);
    g->left_out = arena_alloc(g->arena, (count + 1) * sizeof *g->left_out);
    if (!g->modules || !g->left_out) {
        setting_problem(problems, "%s: out of memory", settings_path(g->settings));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const char *entry = json_string_value(json_array_get(entries, i));

        if (!generation_leaves_out(g, entry))
            load_entry(g, entry, problems);
    }
    generation_leave_needy_out(g);
    for (size_t i = 0; i < g->module_count; i++) {
        sandbox_file(g->modules[i].path);
        module_validate(&g->modules[i], problems);
    }
    module_validate_set(g->modules, g->module_count, problems);
    reorder(g, problems);
    for (size_t i = 0; i < g->module_count; i++)
        bind_settings(g, &g->modules[i], problems);
}
