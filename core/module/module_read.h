/*
 * A module read from its file for those who only judge it (`busbar check`): its tables, laid out as
 * the dynamic linker would do it, but not a line of it is run, constructors included. Nothing in
 * the tables may be called.
 */
#ifndef CORE_MODULE_READ_H
#define CORE_MODULE_READ_H

#include "core/module/elf_image.h"
#include "core/module/module_load.h"

/*
 * module_load() without the dynamic linker; where this machine's relocations are not known, with
 * it. The image is the module's until module_unread().
 */
int module_read(struct core_module *module, struct arena *arena, const char *path,
                const char *where, struct setting_problems *problems);

/* Gives back what was read; no effect on a module that was loaded. */
void module_unread(struct core_module *module);

/* module_links.c: whether the dynamic linker would find all that it needs. 0; or -1 with `why`. */
int module_links_check(const struct elf_file *file, char *why, size_t why_size);

#endif
