/*
 * Finds missing libraries and undefined symbols, without passing the module to the dynamic linker.
 * The libraries are loaded (they belong to the system, not to a module), the module is not.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/module/module_read.h"

static int no_library(const char *name, char *why, size_t why_size)
{
    const char *reason = dlerror();

    snprintf(why, why_size, "cannot be loaded: it needs %s: %s", name, reason ? reason : "unknown");
    return -1;
}

/* Whether the file specifies paths for its libraries: checking is then left to the linker. */
static bool has_own_paths(Elf_Data *data)
{
    GElf_Dyn entry;

    for (int i = 0; gelf_getdyn(data, i, &entry); i++)
        if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH)
            return true;
    return false;
}

enum { LIBRARIES_MAX = 64 };

/*
 * Loaded separately, as the linker would do it: libraries of other modules must not hide a missing
 * one.
 */
struct libraries {
    void *handles[LIBRARIES_MAX];
    size_t count;
};

/* Returns 1 if all are present, 0 if that is unknown, -1 if one is missing. */
static int load_libraries(struct libraries *libraries, const struct elf_file *file, char *why,
                          size_t why_size)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Dyn entry;
    Elf_Data *data = elf_file_next(file, SHT_DYNAMIC, &section, &header);

    if (!data || has_own_paths(data))
        return 0;
    for (int i = 0; gelf_getdyn(data, i, &entry); i++) {
        const char *name = entry.d_tag == DT_NEEDED
                               ? elf_strptr(file->elf, header.sh_link, entry.d_un.d_val)
                               : NULL;

        if (entry.d_tag != DT_NEEDED)
            continue;
        if (!name || strchr(name, '/') || libraries->count == LIBRARIES_MAX)
            return 0;
        void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);

        if (!handle)
            return no_library(name, why, why_size);
        libraries->handles[libraries->count++] = handle;
    }
    return 1;
}

/*
 * Whether the program, its libraries, or one of these libraries defines the symbol. Its value may
 * be 0.
 */
static bool defined(const struct libraries *libraries, const char *name)
{
    dlerror();
    if (dlsym(RTLD_DEFAULT, name) || !dlerror())
        return true;
    for (size_t i = 0; i < libraries->count; i++) {
        dlerror();
        if (dlsym(libraries->handles[i], name) || !dlerror())
            return true;
    }
    return false;
}

int module_links_check(const struct elf_file *file, char *why, size_t why_size)
{
    struct libraries libraries = {.count = 0};
    int there = load_libraries(&libraries, file, why, why_size);
    struct elf_symbols symbols = elf_file_symbols(file, SHT_DYNSYM);
    GElf_Sym symbol;

    if (there <= 0)
        return there;
    for (size_t i = 1; i < symbols.count; i++) {
        const char *name = elf_symbol(&symbols, i, &symbol);

        if (!name || !*name || symbol.st_shndx != SHN_UNDEF ||
            GELF_ST_BIND(symbol.st_info) != STB_GLOBAL || defined(&libraries, name))
            continue;
        snprintf(why, why_size, "cannot be loaded: undefined symbol: %s", name);
        return -1;
    }
    return 0;
}
