#include "core/module/elf_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/module/module_load.h"

int elf_file_open(struct elf_file *file, const char *path, char *why, size_t why_size)
{
    size_t sections;

    *file = (struct elf_file){.fd = -1};
    if (module_file_check(path, why, why_size))
        return -1;
    if (elf_version(EV_CURRENT) != EV_NONE)
        file->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (file->fd >= 0)
        file->elf = elf_begin(file->fd, ELF_C_READ, NULL);
    if (file->elf && !elf_getshdrnum(file->elf, &sections) && sections)
        return 0;
    snprintf(why, why_size, "%s",
             file->elf ? "has no section headers; build it anew and strip no more than strip does"
                       : "cannot be read as an ELF file");
    elf_file_close(file);
    return -1;
}

void elf_file_close(struct elf_file *file)
{
    elf_end(file->elf);
    if (file->fd >= 0)
        close(file->fd);
    *file = (struct elf_file){.fd = -1};
}

const char *elf_file_section_name(const struct elf_file *file, const GElf_Shdr *header)
{
    size_t strings;
    const char *name = NULL;

    if (!elf_getshdrstrndx(file->elf, &strings))
        name = elf_strptr(file->elf, strings, header->sh_name);
    return name ? name : "";
}

Elf_Data *elf_file_next(const struct elf_file *file, unsigned type, Elf_Scn **section,
                        GElf_Shdr *header)
{
    while ((*section = elf_nextscn(file->elf, *section)) != NULL) {
        Elf_Data *data = NULL;

        if (gelf_getshdr(*section, header) && header->sh_type == type)
            data = elf_getdata(*section, NULL);
        if (data)
            return data;
    }
    return NULL;
}

static bool write_hex(const unsigned char *bytes, size_t length, char *out, size_t size)
{
    if (!length || length * 2 + 1 > size)
        return false;
    for (size_t i = 0; i < length; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

static bool id_in_notes(Elf_Data *data, char *out, size_t size)
{
    const char *bytes = data->d_buf;
    size_t at = 0, name, text;
    GElf_Nhdr note;

    while ((at = gelf_getnote(data, at, &note, &name, &text)) > 0)
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU &&
            !memcmp(bytes + name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU))
            return write_hex((const unsigned char *)bytes + text, note.n_descsz, out, size);
    return false;
}

bool elf_file_build_id(const struct elf_file *file, char *out, size_t size)
{
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    Elf_Data *data;

    while ((data = elf_file_next(file, SHT_NOTE, &section, &header)) != NULL)
        if (data->d_buf && id_in_notes(data, out, size))
            return true;
    return false;
}

struct elf_symbols elf_file_symbols(const struct elf_file *file, unsigned type)
{
    struct elf_symbols symbols = {.file = file};
    Elf_Scn *section = NULL;
    GElf_Shdr header;

    while ((symbols.data = elf_file_next(file, type, &section, &header)) != NULL) {
        if (!header.sh_entsize)
            continue;
        symbols.strings = header.sh_link;
        symbols.count = symbols.data->d_size / header.sh_entsize;
        break;
    }
    return symbols;
}

const char *elf_symbol(const struct elf_symbols *symbols, size_t index, GElf_Sym *symbol)
{
    if (!gelf_getsym(symbols->data, (int)index, symbol))
        return NULL;
    return elf_strptr(symbols->file->elf, symbols->strings, symbol->st_name);
}
