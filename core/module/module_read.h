/*
 * Reads a module from its file in order to check it (`busbar check`): its tables are laid out as
 * the dynamic linker would do it, but no code is run, not even constructors. Functions in the
 * tables must not be called.
 */
#ifndef CORE_MODULE_READ_H
#define CORE_MODULE_READ_H

#include "core/module/elf_image.h"
#include "core/module/module_load.h"

/*
 * Like module_load() without the dynamic linker; with it if this machine's relocations are not
 * supported. The module owns the image until module_unread().
 */
int module_read(struct core_module *module, struct arena *arena, const char *path,
                const char *where, struct setting_problems *problems);

/* Frees the image; no effect on a module that was loaded. */
void module_unread(struct core_module *module);

/*
 * module_links.c: whether the dynamic linker would find everything needed. Returns 0, or -1 with
 * `why`.
 */
int module_links_check(const struct elf_file *file, char *why, size_t why_size);

#endif
