/* Data of a module that can change, see modcheck.h. */
#include <inttypes.h>
#include <string.h>

#include "core/inspect/modcheck.h"

/* Of what the runtime has in a section, the room that each may take beside its size. */
enum { WORD_BYTES = 8 };

#define REMEDY                                                                                     \
    "which all generations would share, and threads without a lock; make it const, or a part of "  \
    "the state that open returns"

#define TLS_REMEDY                                                                                 \
    "but fibers share threads and never keep to one; keep it in the request's memory or in the "   \
    "state"

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

/* What of a section is accounted for. */
struct account {
    size_t found;     /* objects of the module's own, which have been told */
    uint64_t runtime; /* bytes that the compiler's runtime may have */
};

static void find_object(const struct modcheck *check, struct account *account, const char *section,
                        const char *name, const GElf_Sym *symbol)
{
    if (modcheck_is_runtimes(name)) {
        account->runtime += symbol->st_size + WORD_BYTES;
        return;
    }
    account->found++;
    if (GELF_ST_TYPE(symbol->st_info) == STT_TLS)
        modcheck_find(check, "has thread-local storage: %s (%s, %" PRIu64 " bytes), " TLS_REMEDY,
                      name, section, (uint64_t)symbol->st_size);
    else
        modcheck_find(check, "has writable data: %s (%s, %" PRIu64 " bytes), " REMEDY, name,
                      section, (uint64_t)symbol->st_size);
}

/* Finds the objects of a section by name. */
static struct account find_objects(const struct modcheck *check, size_t index, const char *section,
                                   unsigned type)
{
    struct elf_symbols symbols = elf_file_symbols(check->file, SHT_SYMTAB);
    struct account account = {0, 0};
    GElf_Sym symbol;

    for (size_t i = 0; i < symbols.count; i++) {
        const char *name = elf_symbol(&symbols, i, &symbol);

        if (name && symbol.st_shndx == index && GELF_ST_TYPE(symbol.st_info) == type)
            find_object(check, &account, section, name, &symbol);
    }
    return account;
}

/* What exceptions of C++ need of other libraries, as stripped files still show it. */
static bool is_for_exceptions(const char *name)
{
    return !strcmp(name, "__gxx_personality_v0") || !strncmp(name, "_ZTI", 4);
}

/* Bytes of a section that the linker fills with addresses for exceptions. */
static uint64_t for_exceptions(const struct modcheck *check, const GElf_Shdr *header)
{
    struct elf_symbols symbols = elf_file_symbols(check->file, SHT_DYNSYM);
    Elf_Scn *section = NULL;
    GElf_Shdr relocations;
    uint64_t bytes = 0;
    GElf_Rela rela;
    GElf_Sym symbol;
    Elf_Data *data;

    while ((data = elf_file_next(check->file, SHT_RELA, &section, &relocations)) != NULL)
        for (int i = 0; gelf_getrela(data, i, &rela); i++) {
            const char *name = elf_symbol(&symbols, GELF_R_SYM(rela.r_info), &symbol);

            if (name && is_for_exceptions(name) && rela.r_offset >= header->sh_addr &&
                rela.r_offset - header->sh_addr < header->sh_size)
                bytes += WORD_BYTES;
        }
    return bytes;
}

static void check_writable(const struct modcheck *check, Elf_Scn *section, const GElf_Shdr *header,
                           const char *name)
{
    struct account account = find_objects(check, elf_ndxscn(section), name, STT_OBJECT);

    /* Compilers put a word into every shared object. */
    account.runtime += WORD_BYTES + for_exceptions(check, header);
    if (!account.found && header->sh_size > account.runtime)
        modcheck_find(check, "has writable data: %" PRIu64 " bytes in %s, " REMEDY,
                      (uint64_t)header->sh_size, name);
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

        if (!is_settled(name))
            check_writable(check, section, &header, name);
    }
}

static void check_thread_local(const struct modcheck *check, Elf_Scn *section,
                               const GElf_Shdr *header)
{
    const char *name = elf_file_section_name(check->file, header);
    struct account account = find_objects(check, elf_ndxscn(section), name, STT_TLS);

    if (!account.found && header->sh_size > account.runtime)
        modcheck_find(check, "has thread-local storage: %" PRIu64 " bytes in %s, " TLS_REMEDY,
                      (uint64_t)header->sh_size, name);
}

void modcheck_thread_local(const struct modcheck *check)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    while ((section = elf_nextscn(check->file->elf, section)) != NULL)
        if (gelf_getshdr(section, &header) && header.sh_flags & SHF_TLS && header.sh_size)
            check_thread_local(check, section, &header);
}
