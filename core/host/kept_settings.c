#include "core/host/kept_settings.h"

#include <stdio.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/generation/generation_lacks.h"
#include "core/recovery/supervised.h"

enum { KEY_BYTES = 512, KEPT_FILES = 8 };

/* Whether the path fits: a longer one is not kept. */
static bool key_of(const char *path, char key[KEY_BYTES])
{
    return snprintf(key, KEY_BYTES, "settings:%s", path) < KEY_BYTES;
}

void kept_settings_keep(const struct generation *g)
{
    int copy = settings_copy(g->settings);
    char key[KEY_BYTES];

    if (copy >= 0 && key_of(settings_path(g->settings), key))
        supervised_keep(key, &copy, 1);
}

struct generation *kept_settings_generation(const char *conf_path)
{
    struct setting_problems problems = {0};
    int fds[KEPT_FILES];
    char key[KEY_BYTES];

    if (!key_of(conf_path, key) || supervised_take(key, fds) != 1)
        return NULL;
    struct generation *g = generation_check_kept(conf_path, fds[0], 1, &problems);

    close(fds[0]);
    if (g && (problems.count || generation_lacks(g, &problems))) {
        generation_destroy(g);
        g = NULL;
    }
    setting_problems_free(&problems);
    return g;
}
