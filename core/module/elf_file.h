/*
 * A module's file read through libelf, for the tools that judge it without running a line of it.
 * libelf checks what it hands out against the file's end; a file must have passed
 * module_file_check(), and keeps its section headers (strip leaves them).
 */
#ifndef CORE_ELF_FILE_H
#define CORE_ELF_FILE_H

#include <gelf.h>
#include <stdbool.h>

struct elf_file {
    int fd;
    Elf *elf;
};

/* Opens it. 0; or -1 with the reason in `why`. */
int elf_file_open(struct elf_file *file, const char *path, char *why, size_t why_size);
void elf_file_close(struct elf_file *file);

/* The build id in hexadecimal, into `out`; false: there is none. */
bool elf_file_build_id(const struct elf_file *file, char *out, size_t size);

/* The name of a section; "" where it cannot be told. */
const char *elf_file_section_name(const struct elf_file *file, const GElf_Shdr *header);

/*
 * The data of the next section of a type (SHT_…) after `section`, which begins as NULL, with its
 * header; NULL: no more.
 */
Elf_Data *elf_file_next(const struct elf_file *file, unsigned type, Elf_Scn **section,
                        GElf_Shdr *header);

/* A table of symbols: SHT_DYNSYM, or SHT_SYMTAB, which stripped files lack. */
struct elf_symbols {
    const struct elf_file *file;
    Elf_Data *data;
    size_t strings, count;
};

/* Empty where the file has none. */
struct elf_symbols elf_file_symbols(const struct elf_file *file, unsigned type);

/* Its name; NULL: not to be read. */
const char *elf_symbol(const struct elf_symbols *symbols, size_t index, GElf_Sym *symbol);

#endif
