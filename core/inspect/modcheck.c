#include "core/inspect/modcheck.h"

#include <stdarg.h>
#include <stdio.h>

void modcheck_find(const struct modcheck *check, const char *format, ...)
{
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    setting_problem(check->findings, "%s: %s", check->path, text);
}

static void check_stack(const struct modcheck *check)
{
    size_t count = 0;
    GElf_Phdr segment;
    bool told = false;

    if (elf_getphdrnum(check->file->elf, &count))
        return;
    for (size_t i = 0; i < count; i++) {
        if (!gelf_getphdr(check->file->elf, (int)i, &segment))
            continue;
        if (segment.p_type == PT_GNU_STACK && !(segment.p_flags & PF_X))
            told = true;
        if (segment.p_type == PT_LOAD && segment.p_flags & PF_W && segment.p_flags & PF_X)
            modcheck_find(check, "has memory that is both writable and executable, so that a "
                                 "mistake becomes a way in; build it with the linker's defaults");
    }
    if (!told)
        modcheck_find(check,
                      "asks for an executable stack, which all threads of the host would get; "
                      "build without nested functions, mark assembler with .note.GNU-stack, or "
                      "link with -Wl,-z,noexecstack");
}

static void check_build_id(const struct modcheck *check)
{
    char id[129];

    if (!elf_file_build_id(check->file, id, sizeof id))
        modcheck_find(check, "has no build id, so that nobody can tell which build a host runs; "
                             "link with -Wl,--build-id=sha1");
}

void modcheck(const char *path, struct setting_problems *findings)
{
    static void (*const checks[])(const struct modcheck *) = {
        modcheck_exports,      modcheck_copies,       modcheck_writable,
        modcheck_thread_local, modcheck_constructors, modcheck_needed,
        modcheck_text,         check_stack,           check_build_id,
    };
    struct elf_file file;
    struct modcheck check = {&file, path, findings};
    char why[512];

    if (elf_file_open(&file, path, why, sizeof why)) {
        modcheck_find(&check, "%s", why);
        return;
    }
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        checks[i](&check);
    elf_file_close(&file);
}
