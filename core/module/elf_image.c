#include "core/module/elf_image.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { IMAGE_MAX = 256 * 1024 * 1024 };

#if defined(__x86_64__)
enum {
    RELATIVE = R_X86_64_RELATIVE,
    ABSOLUTE = R_X86_64_64,
    GLOBAL = R_X86_64_GLOB_DAT,
};
#elif defined(__aarch64__)
enum {
    RELATIVE = R_AARCH64_RELATIVE,
    ABSOLUTE = R_AARCH64_ABS64,
    GLOBAL = R_AARCH64_GLOB_DAT,
};
#else
enum {
    RELATIVE = -1,
    ABSOLUTE = -2,
    GLOBAL = -3
}; /* unknown machine: the addresses in tables
    * cannot be read */
#endif

#ifndef SHT_RELR
#define SHT_RELR 19
#endif

static int refuse(char *why, size_t why_size, const char *reason)
{
    snprintf(why, why_size, "%s", reason);
    return -1;
}

static bool inside(const struct elf_image *image, uint64_t at, uint64_t length)
{
    return at <= image->size && length <= image->size - at;
}

/* Returns the size needed for all segments; 0: too large. */
static size_t extent(const struct elf_file *file, size_t segments)
{
    uint64_t end = 0;
    GElf_Phdr segment;

    for (size_t i = 0; i < segments; i++) {
        if (!gelf_getphdr(file->elf, (int)i, &segment) || segment.p_type != PT_LOAD)
            continue;
        if (segment.p_vaddr > IMAGE_MAX || segment.p_memsz > IMAGE_MAX - segment.p_vaddr ||
            segment.p_filesz > segment.p_memsz)
            return 0;
        if (segment.p_vaddr + segment.p_memsz > end)
            end = segment.p_vaddr + segment.p_memsz;
    }
    return end;
}

static int read_segments(struct elf_image *image, const struct elf_file *file, size_t segments)
{
    GElf_Phdr segment;

    for (size_t i = 0; i < segments; i++) {
        if (!gelf_getphdr(file->elf, (int)i, &segment) || segment.p_type != PT_LOAD)
            continue;
        if (pread(file->fd, image->base + segment.p_vaddr, segment.p_filesz,
                  (off_t)segment.p_offset) != (ssize_t)segment.p_filesz)
            return -1;
    }
    return 0;
}

static void put(struct elf_image *image, uint64_t at, uint64_t address)
{
    uintptr_t value = address ? (uintptr_t)image->base + address : 0;

    if (inside(image, at, sizeof value))
        memcpy(image->base + at, &value, sizeof value);
}

/* Adds the base to an address that is already in the image. */
static void rebase(struct elf_image *image, uint64_t at)
{
    uintptr_t value;

    if (!inside(image, at, sizeof value))
        return;
    memcpy(&value, image->base + at, sizeof value);
    put(image, at, value);
}

static void relocate_one(struct elf_image *image, const struct elf_symbols *symbols,
                         const GElf_Rela *rela)
{
    int type = (int)GELF_R_TYPE(rela->r_info);
    GElf_Sym symbol;

    if (type == RELATIVE) {
        put(image, rela->r_offset, (uint64_t)rela->r_addend);
        return;
    }
    if (type != ABSOLUTE && type != GLOBAL)
        return;
    if (!elf_symbol(symbols, GELF_R_SYM(rela->r_info), &symbol) || symbol.st_shndx == SHN_UNDEF)
        return;
    put(image, rela->r_offset, symbol.st_value + (uint64_t)rela->r_addend);
}

/* A word is an address, or a bitmap for the 63 words after the last address. */
static void relocate_packed(struct elf_image *image, const Elf_Data *data)
{
    uint64_t next = 0, word;

    for (size_t i = 0; i + sizeof word <= data->d_size; i += sizeof word) {
        memcpy(&word, (const char *)data->d_buf + i, sizeof word);
        if (!(word & 1)) {
            rebase(image, word);
            next = word + sizeof word;
            continue;
        }
        for (unsigned bit = 1; bit < 64; bit++)
            if (word >> bit & 1)
                rebase(image, next + (bit - 1) * sizeof word);
        next += 63 * sizeof word;
    }
}

static void relocate(struct elf_image *image, const struct elf_file *file)
{
    struct elf_symbols symbols = elf_file_symbols(file, SHT_DYNSYM);
    Elf_Scn *section = NULL;
    GElf_Shdr header;
    GElf_Rela rela;

    while ((section = elf_nextscn(file->elf, section)) != NULL) {
        Elf_Data *data = NULL;

        if (gelf_getshdr(section, &header) && header.sh_flags & SHF_ALLOC)
            data = elf_getdata(section, NULL);
        if (!data || !data->d_buf)
            continue;
        if (header.sh_type == SHT_RELR)
            relocate_packed(image, data);
        for (int i = 0; header.sh_type == SHT_RELA && gelf_getrela(data, i, &rela); i++)
            relocate_one(image, &symbols, &rela);
    }
}

bool elf_image_possible(void)
{
    return (int)RELATIVE >= 0;
}

int elf_image_make(struct elf_image *image, const struct elf_file *file, char *why, size_t why_size)
{
    size_t segments = 0;

    *image = (struct elf_image){0};
    if (!elf_getphdrnum(file->elf, &segments))
        image->size = extent(file, segments);
    if (!image->size)
        return refuse(why, why_size, "is damaged: its segments make no sense");
    void *base =
        mmap(NULL, image->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return refuse(why, why_size, "finds no memory");
    image->base = base;
    if (read_segments(image, file, segments)) {
        elf_image_free(image);
        return refuse(why, why_size, "cannot be read");
    }
    relocate(image, file);
    return 0;
}

void elf_image_free(struct elf_image *image)
{
    if (image->base)
        munmap(image->base, image->size);
    *image = (struct elf_image){0};
}

const void *elf_image_find(const struct elf_image *image, const struct elf_file *file,
                           const char *name, size_t *size)
{
    struct elf_symbols symbols = elf_file_symbols(file, SHT_DYNSYM);
    GElf_Sym symbol;

    for (size_t i = 0; i < symbols.count; i++) {
        const char *found = elf_symbol(&symbols, i, &symbol);

        if (!found || strcmp(found, name) != 0 || symbol.st_shndx == SHN_UNDEF ||
            GELF_ST_TYPE(symbol.st_info) != STT_OBJECT)
            continue;
        *size = symbol.st_size;
        return inside(image, symbol.st_value, symbol.st_size) ? image->base + symbol.st_value
                                                              : NULL;
    }
    return NULL;
}
