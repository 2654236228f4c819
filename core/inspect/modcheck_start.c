/* Code that would run when a module's file is loaded or unloaded, see modcheck.h. */
#include <inttypes.h>
#include <string.h>

#include "core/inspect/modcheck.h"

#if defined(__x86_64__)
enum { RELATIVE = R_X86_64_RELATIVE, INDIRECT = R_X86_64_IRELATIVE };
#elif defined(__aarch64__)
enum { RELATIVE = R_AARCH64_RELATIVE, INDIRECT = R_AARCH64_IRELATIVE };
#else
enum { RELATIVE = -1, INDIRECT = -2 };
#endif

#define REMEDY                                                                                     \
    "outside of the four verbs, even for `busbar check`, and whatever generation it is; move it "  \
    "to open and close"

enum { ENTRIES_MAX = 64 /* of a list, that are named one by one */ };

/* The one function that the compiler's own start-up files put into each list, and what Rust's
 * standard library has there: it keeps the arguments of the program in mind. */
static bool is_toolchains(const char *name)
{
    return !strcmp(name, "frame_dummy") || !strcmp(name, "__do_global_dtors_aux") ||
           modcheck_is_runtimes(name);
}

/* The name of the function at an address; NULL: none, or the file is stripped. */
static const char *function_at(const struct modcheck *check, uint64_t address)
{
    struct elf_symbols symbols = elf_file_symbols(check->file, SHT_SYMTAB);
    GElf_Sym symbol;

    for (size_t i = 0; i < symbols.count; i++) {
        const char *name = elf_symbol(&symbols, i, &symbol);

        if (name && symbol.st_value == address && GELF_ST_TYPE(symbol.st_info) == STT_FUNC)
            return name;
    }
    return NULL;
}

/* The address that a relocation puts at a place; 0: none does. */
static uint64_t address_put_at(const struct modcheck *check, uint64_t place)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Rela rela;
    Elf_Data *data;

    while ((data = elf_file_next(check->file, SHT_RELA, &section, &header)) != NULL)
        for (int i = 0; gelf_getrela(data, i, &rela); i++)
            if (rela.r_offset == place && (int)GELF_R_TYPE(rela.r_info) == RELATIVE)
                return (uint64_t)rela.r_addend;
    return 0;
}

/* The address in a list's entry: put there by a relocation, or (packed ones) there already. */
static uint64_t entry_at(const struct modcheck *check, const GElf_Shdr *header, Elf_Data *data,
                         uint64_t at)
{
    uint64_t address = address_put_at(check, header->sh_addr + at);

    if (!address && data && data->d_buf && at + sizeof address <= data->d_size)
        memcpy(&address, (const char *)data->d_buf + at, sizeof address);
    return address;
}

/* Entries with the toolchain's name pass, and one without any name. */
static void check_list(const struct modcheck *check, Elf_Scn *section, const GElf_Shdr *header,
                       const char *what)
{
    Elf_Data *data = elf_getdata(section, NULL);
    uint64_t size = data ? data->d_size : 0; /* what the header says may be anything */
    unsigned nameless = 0;

    if (size / sizeof(uint64_t) > ENTRIES_MAX) {
        modcheck_find(check, "has %" PRIu64 " %ss, which run " REMEDY, size / sizeof(uint64_t),
                      what);
        return;
    }
    for (uint64_t at = 0; at + sizeof(uint64_t) <= size; at += sizeof(uint64_t)) {
        const char *name = function_at(check, entry_at(check, header, data, at));

        if (name && is_toolchains(name))
            continue;
        if (!name && !nameless++)
            continue;
        modcheck_find(check, "has a %s: %s, which runs " REMEDY, what, name ? name : "a function");
    }
}

static void check_lists(const struct modcheck *check)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    while ((section = elf_nextscn(check->file->elf, section)) != NULL) {
        if (!gelf_getshdr(section, &header))
            continue;
        const char *name = elf_file_section_name(check->file, &header);

        if (header.sh_type == SHT_INIT_ARRAY || header.sh_type == SHT_PREINIT_ARRAY)
            check_list(check, section, &header, "constructor");
        else if (header.sh_type == SHT_FINI_ARRAY)
            check_list(check, section, &header, "destructor");
        else if ((!strcmp(name, ".ctors") || !strcmp(name, ".dtors")) && header.sh_size > 16)
            modcheck_find(check, "has entries in %s, which run " REMEDY, name);
    }
}

/* The section that DT_INIT or DT_FINI must point to, the compiler's own. */
static uint64_t section_address(const struct modcheck *check, const char *wanted)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    while ((section = elf_nextscn(check->file->elf, section)) != NULL)
        if (gelf_getshdr(section, &header) &&
            !strcmp(elf_file_section_name(check->file, &header), wanted))
            return header.sh_addr;
    return 0;
}

static void check_entries(const struct modcheck *check)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Dyn entry;
    Elf_Data *data;

    while ((data = elf_file_next(check->file, SHT_DYNAMIC, &section, &header)) != NULL)
        for (int i = 0; gelf_getdyn(data, i, &entry); i++) {
            if (entry.d_tag == DT_INIT && entry.d_un.d_ptr != section_address(check, ".init"))
                modcheck_find(check, "has a constructor (-Wl,-init), which runs " REMEDY);
            if (entry.d_tag == DT_FINI && entry.d_un.d_ptr != section_address(check, ".fini"))
                modcheck_find(check, "has a destructor (-Wl,-fini), which runs " REMEDY);
        }
}

static void check_indirect(const struct modcheck *check)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Rela rela;
    Elf_Data *data;

    while ((data = elf_file_next(check->file, SHT_RELA, &section, &header)) != NULL)
        for (int i = 0; gelf_getrela(data, i, &rela); i++) {
            if ((int)GELF_R_TYPE(rela.r_info) != INDIRECT)
                continue;
            modcheck_find(check, "chooses functions while it is loaded (ifunc), which runs code "
                                 "in the linker; choose in open");
            return;
        }
}

void modcheck_constructors(const struct modcheck *check)
{
    check_lists(check);
    check_entries(check);
    check_indirect(check);
}
