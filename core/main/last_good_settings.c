#include "core/main/last_good_settings.h"

#include <stdio.h>

#include "core/lib/log.h"
#include "core/lib/supervised.h"
#include "core/module/generation_lacks.h"

enum { KEY_BYTES = 512, KEPT_FILES = 8 };

/* Whether the path fits: settings of a longer path are not kept. */
static bool key_of(const char *path, char key[KEY_BYTES])
{
    return snprintf(key, KEY_BYTES, "settings:%s", path) < KEY_BYTES;
}

void last_good_settings_keep(const struct generation *g)
{
    int copy = settings_copy(g->settings);
    char key[KEY_BYTES];

    if (copy >= 0 && key_of(settings_path(g->settings), key))
        supervised_keep(key, &copy, 1);
}

/* Gets the supervisor's file, once. -1: there is none. */
static int given(const char *conf_path)
{
    static int copy = -1;
    int fds[KEPT_FILES];
    char key[KEY_BYTES];

    if (copy < 0 && key_of(conf_path, key) && supervised_take(key, fds) == 1)
        copy = fds[0];
    return copy;
}

/* Whether the rest of both files is equal. */
static bool same(FILE *one, FILE *other)
{
    int a, b;

    do {
        a = getc(one);
        b = getc(other);
    } while (a == b && a != EOF);
    return a == b;
}

bool last_good_settings_differ(const char *conf_path)
{
    int copy = given(conf_path);
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", copy);
    FILE *kept = copy < 0 ? NULL : fopen(path, "re"), *now = kept ? fopen(conf_path, "re") : NULL;
    bool differ = kept && (!now || !same(kept, now));

    if (now)
        fclose(now);
    if (kept)
        fclose(kept);
    return differ;
}

struct generation *last_good_settings_generation(const char *conf_path)
{
    struct setting_problems problems = {0};
    int copy = given(conf_path);

    if (copy < 0)
        return NULL;
    struct generation *g = generation_check_kept(conf_path, copy, 1, &problems);

    if (g && (problems.count || generation_lacks(g, &problems))) {
        generation_destroy(g);
        g = NULL;
    }
    setting_problems_free(&problems);
    return g;
}
