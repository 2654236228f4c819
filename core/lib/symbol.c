/* Finds the name of a function in the file's symbol table, with async-signal-safe calls only. */
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/lib/mapped_files.h"

struct image {
    const char *bytes;
    size_t size;
};

/*
 * Returns `count` objects of `each` bytes at an offset of the file; NULL if they are not in the
 * file.
 */
static const void *part_of(const struct image *image, uint64_t offset, uint64_t count, size_t each)
{
    if (offset > image->size || count > (image->size - offset) / each)
        return NULL;
    return image->bytes + offset;
}

static int map(struct image *image, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    void *bytes = MAP_FAILED;

    if (fd < 0)
        return -1;
    if (!fstat(fd, &about) && S_ISREG(about.st_mode) && about.st_size > 0)
        bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return -1;
    *image = (struct image){bytes, (size_t)about.st_size};
    return 0;
}

/* Prefers the full symbol table, which stripped files lack, to the table of exported symbols. */
static const ElfW(Shdr) *
    find_table(const struct image *image, const ElfW(Shdr) * sections, size_t count)
{
    const ElfW(Shdr) *found = NULL;

    (void)image;
    for (size_t i = 0; i < count; i++) {
        if (sections[i].sh_type == SHT_SYMTAB)
            return &sections[i];
        if (sections[i].sh_type == SHT_DYNSYM)
            found = &sections[i];
    }
    return found;
}

static void copy(char *out, size_t size, const char *from, size_t most)
{
    size_t length = 0;

    while (length + 1 < size && length < most && from[length]) {
        out[length] = from[length];
        length++;
    }
    out[length] = '\0';
}

static bool look(const struct image *image, const ElfW(Shdr) * table, const ElfW(Shdr) * texts,
                 uintptr_t at, char *name, size_t size, size_t *into)
{
    size_t count = table->sh_size / sizeof(ElfW(Sym));
    const ElfW(Sym) *symbols = part_of(image, table->sh_offset, count, sizeof *symbols);
    const char *strings = part_of(image, texts->sh_offset, texts->sh_size, 1);

    for (size_t i = 0; symbols && strings && i < count; i++) {
        const ElfW(Sym) *symbol = &symbols[i];

        if ((symbol->st_info & 15) != STT_FUNC || at < symbol->st_value ||
            at - symbol->st_value >= symbol->st_size || symbol->st_name >= texts->sh_size)
            continue;
        copy(name, size, strings + symbol->st_name, texts->sh_size - symbol->st_name);
        *into = at - symbol->st_value;
        return true;
    }
    return false;
}

static bool read_image(const struct image *image, uintptr_t at, char *name, size_t size,
                       size_t *into)
{
    const ElfW(Ehdr) *head = part_of(image, 0, 1, sizeof *head);

    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_shentsize != sizeof(ElfW(Shdr)))
        return false;
    const ElfW(Shdr) *sections = part_of(image, head->e_shoff, head->e_shnum, sizeof(ElfW(Shdr)));
    const ElfW(Shdr) *table = sections ? find_table(image, sections, head->e_shnum) : NULL;

    if (!table || table->sh_link >= head->e_shnum)
        return false;
    return look(image, table, &sections[table->sh_link], at, name, size, into);
}

bool mapped_files_symbol(const struct object *object, uintptr_t address, char *name, size_t size,
                         size_t *into)
{
    struct image image;

    if (map(&image, object->open))
        return false;
    bool found = read_image(&image, address - object->base, name, size, into);

    munmap((void *)(uintptr_t)image.bytes, image.size);
    return found;
}
