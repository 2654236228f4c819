#include "fixture.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct arena *arena;
char conf[sizeof "/tmp/busbar-settings-XXXXXX"];
struct setting_problems problems;

void arena_setup(void)
{
    arena = arena_new();
    ck_assert_ptr_nonnull(arena);
}

void arena_teardown(void)
{
    arena_free(arena);
}

void conf_setup(void)
{
    snprintf(conf, sizeof conf, "/tmp/busbar-settings-XXXXXX");
    int fd = mkstemp(conf);

    ck_assert_int_ge(fd, 0);
    close(fd);
    arena_setup();
}

void conf_teardown(void)
{
    unlink(conf);
    setting_problems_free(&problems);
    arena_teardown();
}

struct generation *conf_generation(const struct bb_api *api)
{
    struct generation *g = generation_check(conf, 1, &problems);

    if (!g || (!problems.count && !generation_open(g, api, &problems)))
        return g;
    generation_destroy(g);
    return NULL;
}
