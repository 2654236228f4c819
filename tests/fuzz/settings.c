/* A settings file: any bytes are bound to settings or refused with a reason. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/lib/settings.h"
#include "fuzz/fuzz.h"
#include "unit/support/setting_rows.h"

static void bind(struct arena *arena, const char *path, struct setting_problems *problems)
{
    struct settings *settings = settings_load(arena, path, problems);

    must(settings || problems->count);
    if (!settings)
        return;
    const struct setting_section *section = settings_bind(settings, "s", &table, problems);

    settings_unknown(settings, NULL, NULL, problems);
    must(section || problems->count);
    if (!section)
        return;
    int64_t whole = setting_integer(section_value(section, "whole", 'i'));

    must(whole >= 1 && whole <= 9);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct setting_problems problems = {0};
    struct arena *arena = arena_new();
    int fd = memfd_create("settings", MFD_CLOEXEC);
    char path[64];

    must(arena && fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    bind(arena, path, &problems);
    setting_problems_free(&problems);
    arena_free(arena);
    close(fd);
    return 0;
}
