/*
 * `busbar modcheck`: judging a module's file for what breaks hosts, without loading it. What code
 * does when it is called cannot be seen from here.
 */
#ifndef CORE_MODCHECK_H
#define CORE_MODCHECK_H

#include "core/module/elf_file.h"
#include "core/settings/settings.h"

/* Adds a line "file: what, why; remedy" for each finding. */
void modcheck(const char *path, struct setting_problems *findings);

/* What the parts of it are given. */
struct modcheck {
    const struct elf_file *file;
    const char *path;
    struct setting_problems *findings;
};

BB_PRINTF(2, 3) void modcheck_find(const struct modcheck *check, const char *format, ...);

/* modcheck_runtime.c: whether the symbol is of a compiler's runtime library, and nobody's fault. */
bool modcheck_is_runtimes(const char *name);

/* modcheck_symbols.c: what it exports; libraries that it has swallowed. */
void modcheck_exports(const struct modcheck *check);
void modcheck_copies(const struct modcheck *check);

/* modcheck_data.c: what changes while it runs. */
void modcheck_writable(const struct modcheck *check);
void modcheck_thread_local(const struct modcheck *check);

/* modcheck_start.c: what would run by itself when the file is loaded or the process ends. */
void modcheck_constructors(const struct modcheck *check);

/* modcheck_dynamic.c: libraries that it needs, relocations in code. */
void modcheck_needed(const struct modcheck *check);
void modcheck_text(const struct modcheck *check);

#endif
