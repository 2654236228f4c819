/* Data of a module that can change, see modcheck.h. */
#include <inttypes.h>
#include <string.h>

#include "core/modcheck.h"

/* What compilers put into every shared object: __dso_handle and completed.0, a word each. */
enum { TOOLCHAIN_BYTES = 8 };

#define REMEDY                                                                                     \
    "which all generations would share, and threads without a lock; make it const, or a part of "  \
    "the state that open returns"

static bool is_toolchains(const char *name)
{
    return !strcmp(name, "__dso_handle") || !strncmp(name, "completed.", 10) ||
           !strcmp(name, "__TMC_END__");
}

/* Written by the linker or the toolchain alone, or read-only once it is relocated. */
static bool is_settled(const char *name)
{
    static const char *const names[] = {".init_array", ".fini_array", ".preinit_array",
                                        ".ctors",      ".dtors",      ".dynamic",
                                        ".got",        ".got.plt",    ".tm_clone_table"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i]))
            return true;
    return !strncmp(name, ".data.rel.ro", 12);
}

/* Finds the objects of a section by name; how many. */
static size_t find_objects(const struct modcheck *check, size_t index, const char *section)
{
    struct elf_symbols symbols = elf_file_symbols(check->file, SHT_SYMTAB);
    size_t found = 0;
    GElf_Sym symbol;

    for (size_t i = 0; i < symbols.count; i++) {
        const char *name = elf_symbol(&symbols, i, &symbol);

        if (!name || symbol.st_shndx != index || GELF_ST_TYPE(symbol.st_info) != STT_OBJECT ||
            is_toolchains(name))
            continue;
        found++;
        modcheck_find(check, "has writable data: %s (%s, %" PRIu64 " bytes), " REMEDY, name,
                      section, (uint64_t)symbol.st_size);
    }
    return found;
}

void modcheck_writable(const struct modcheck *check)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    while ((section = elf_nextscn(check->file->elf, section)) != NULL) {
        if (!gelf_getshdr(section, &header) || !(header.sh_flags & SHF_WRITE) ||
            header.sh_flags & SHF_TLS || !(header.sh_flags & SHF_ALLOC))
            continue;
        const char *name = elf_file_section_name(check->file, &header);

        if (is_settled(name) || find_objects(check, elf_ndxscn(section), name))
            continue;
        if (header.sh_size > TOOLCHAIN_BYTES)
            modcheck_find(check, "has writable data: %" PRIu64 " bytes in %s, " REMEDY,
                          (uint64_t)header.sh_size, name);
    }
}

void modcheck_thread_local(const struct modcheck *check)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    while ((section = elf_nextscn(check->file->elf, section)) != NULL)
        if (gelf_getshdr(section, &header) && header.sh_flags & SHF_TLS && header.sh_size)
            modcheck_find(check,
                          "has thread-local storage: %" PRIu64 " bytes in %s, but fibers share "
                          "threads and never keep to one; keep it in the request's memory or in "
                          "the state",
                          (uint64_t)header.sh_size, elf_file_section_name(check->file, &header));
}
