/*
 * Reads a module's file with libelf, for tools that check it without running its code. libelf
 * checks offsets against the end of the file; the file must have passed module_file_check() and
 * must have its section headers (strip keeps them).
 */
#ifndef CORE_ELF_FILE_H
#define CORE_ELF_FILE_H

#include <gelf.h>
#include <stdbool.h>

struct elf_file {
    int fd;
    Elf *elf;
};

/* Opens a file. Returns 0, or -1 with the reason in `why`. */
int elf_file_open(struct elf_file *file, const char *path, char *why, size_t why_size);
void elf_file_close(struct elf_file *file);

/* Writes the build id in hexadecimal to `out`; false: there is none. */
bool elf_file_build_id(const struct elf_file *file, char *out, size_t size);

/* Returns the name of a section; "" if it cannot be read. */
const char *elf_file_section_name(const struct elf_file *file, const GElf_Shdr *header);

/*
 * Returns the data and header of the next section of a type (SHT_…) after `section`, which is
 * initially NULL; NULL: no more.
 */
Elf_Data *elf_file_next(const struct elf_file *file, unsigned type, Elf_Scn **section,
                        GElf_Shdr *header);

/* A symbol table: SHT_DYNSYM, or SHT_SYMTAB, which stripped files lack. */
struct elf_symbols {
    const struct elf_file *file;
    Elf_Data *data;
    size_t strings, count;
};

/* Empty if the file has none. */
struct elf_symbols elf_file_symbols(const struct elf_file *file, unsigned type);

/* Gets a symbol and returns its name; NULL: it cannot be read. */
const char *elf_symbol(const struct elf_symbols *symbols, size_t index, GElf_Sym *symbol);

#endif
