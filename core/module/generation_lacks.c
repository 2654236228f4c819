/* Settings that the modules require: a host without them could only refuse requests. */
#include "core/module/generation_lacks.h"

static bool has_keys(const struct generation *g)
{
    return json_array_size(settings_json(g->settings, "secrets", "keys")) > 0;
}

static void lacks_database(const struct generation *g, struct setting_problems *problems)
{
    for (size_t i = 0; i < g->module_count; i++) {
        if (!g->modules[i].descriptor->schema)
            continue;
        settings_complain(g->settings, problems, "database", "url",
                          "is empty, but module %s keeps tables: say how to reach PostgreSQL",
                          g->modules[i].descriptor->name);
        return;
    }
}

static void lacks_keys(const struct generation *g, struct setting_problems *problems)
{
    for (size_t i = 0; i < g->module_count; i++) {
        if (!(g->modules[i].descriptor->flags & BB_MODULE_SEALS))
            continue;
        settings_complain(g->settings, problems, "secrets", "keys",
                          "is empty, but module %s encrypts with it: `openssl rand -hex 32` makes "
                          "a key",
                          g->modules[i].descriptor->name);
        return;
    }
}

bool generation_lacks(const struct generation *g, struct setting_problems *problems)
{
    const char *url = settings_text(g->settings, "database", "url");
    size_t before = problems->count;

    if (!url || !*url)
        lacks_database(g, problems);
    if (!has_keys(g))
        lacks_keys(g, problems);
    return problems->count > before;
}
