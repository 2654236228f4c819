#include "fixture.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct arena *arena;
char conf[sizeof "/tmp/busbar-settings-XXXXXX"];
struct setting_problems problems;

char *file_read_bytes(const char *path, size_t *length)
{
    enum { FILE_MAX = 1 << 20 };
    FILE *file = fopen(path, "re");
    char *bytes = calloc(1, FILE_MAX);

    ck_assert_msg(file && bytes, "%s", path);
    *length = fread(bytes, 1, FILE_MAX, file);
    ck_assert_msg(*length < FILE_MAX, "%s is too large", path);
    fclose(file);
    return bytes;
}

void file_write_bytes(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "we");

    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
}

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
