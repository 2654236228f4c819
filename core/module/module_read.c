#include "core/module/module_read.h"

#include <stdio.h>
#include <string.h>

/* Returns 0 with the descriptor, which is in the image, or -1 with the reason in `why`. */
static int read_descriptor(struct core_module *module, struct arena *arena,
                           const struct elf_file *file, char *why, size_t why_size)
{
    size_t size = 0;

    if (elf_image_make(module->image, file, why, why_size))
        return -1;
    const struct bb_module *descriptor =
        elf_image_find(module->image, file, BB_MODULE_SYMBOL, &size);

    snprintf(why, why_size, "is no busbar module: it exports no " BB_MODULE_SYMBOL);
    if (descriptor)
        module->descriptor = module_descriptor_copy(arena, descriptor, size, why, why_size);
    if (!module->descriptor || module_links_check(file, why, why_size))
        return -1;
    elf_file_build_id(file, module->build_id, sizeof module->build_id);
    return 0;
}

static int read_file(struct core_module *module, struct arena *arena, const char *path, char *why,
                     size_t why_size)
{
    struct elf_file file;

    if (elf_file_open(&file, path, why, why_size))
        return -1;
    module->path = arena_text(arena, path, strlen(path));
    module->image = arena_alloc(arena, sizeof *module->image);
    int failed = -1;

    if (module->path && module->image)
        failed = read_descriptor(module, arena, &file, why, why_size);
    else
        snprintf(why, why_size, "out of memory");
    elf_file_close(&file);
    return failed;
}

int module_read(struct core_module *module, struct arena *arena, const char *path,
                const char *where, struct setting_problems *problems)
{
    char why[512] = "";

    if (!elf_image_possible())
        return module_load(module, arena, path, where, problems);
    if (read_file(module, arena, path, why, sizeof why)) {
        setting_problem(problems, "%s: %s: %s", where, path, why);
        module_unread(module);
        return -1;
    }
    module_set_handle(module);
    return 0;
}

void module_unread(struct core_module *module)
{
    if (module->image)
        elf_image_free(module->image);
    module->image = NULL;
}
