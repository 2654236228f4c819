#include "core/lib/mapped_files.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OBJECTS_MAX = 256 };

static struct object objects[OBJECTS_MAX];
static atomic_size_t object_count;

/* Finds the build id in the notes, which are aligned to four bytes. */
static void mapped_find_build(struct object *object, const char *notes, size_t size)
{
    size_t at = 0;

    while (at + sizeof(ElfW(Nhdr)) <= size) {
        const ElfW(Nhdr) *note = (const void *)(notes + at);
        size_t name = (note->n_namesz + 3U) & ~3U, text = (note->n_descsz + 3U) & ~3U;

        if (name > size || text > size || at + sizeof *note + name + text > size)
            return;
        const char *owner = notes + at + sizeof *note;
        if (note->n_type == NT_GNU_BUILD_ID && name == 4 && !memcmp(owner, "GNU", 4))
            for (size_t i = 0; i < note->n_descsz && 2 * i + 2 < OBJECT_BUILD; i++)
                snprintf(object->build + 2 * i, 3, "%02x", (unsigned char)owner[name + i]);
        at += sizeof *note + name + text;
    }
}

static int mapped_add(struct dl_phdr_info *info, size_t size, void *arg)
{
    size_t count = atomic_load(&object_count);
    const char *path = info->dlpi_name;
    char own[OBJECT_PATH];

    (void)size;
    (void)arg;
    for (size_t i = 0; i < count; i++)
        if (objects[i].base == info->dlpi_addr)
            return 0;
    if (count == OBJECTS_MAX)
        return 0;
    struct object *object = &objects[count];

    *object = (struct object){.base = info->dlpi_addr};
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;

        if (part->p_type == PT_NOTE)
            mapped_find_build(object, (const char *)from, part->p_filesz); // NOLINT
        if (part->p_type != PT_LOAD)
            continue;
        if (!object->to || from < object->from)
            object->from = from;
        if (to > object->to)
            object->to = to;
    }
    ssize_t length = *path ? 0 : readlink("/proc/self/exe", own, sizeof own - 1);

    if (length > 0)
        own[length] = '\0';
    const char *file = length > 0 ? own : path;
    const char *slash = strrchr(file, '/');

    snprintf(object->open, sizeof object->open, "%s", *path ? path : "/proc/self/exe");
    snprintf(object->file, sizeof object->file, "%s", file);
    snprintf(object->name, sizeof object->name, "%.63s", slash ? slash + 1 : file);
    atomic_store(&object_count, count + 1);
    return 0;
}

void mapped_files_snapshot(void)
{
    dl_iterate_phdr(mapped_add, NULL);
}

void mapped_files_module(const void *address, const char *name, const char *file)
{
    struct object *object = (struct object *)(uintptr_t)mapped_files_find((uintptr_t)address);

    if (!object)
        return;
    snprintf(object->name, sizeof object->name, "%s", name);
    snprintf(object->file, sizeof object->file, "%s", file);
    object->module = true;
}

const struct object *mapped_files_at(size_t index)
{
    return index < atomic_load(&object_count) ? &objects[index] : NULL;
}

const struct object *mapped_files_find(uintptr_t address)
{
    size_t count = atomic_load(&object_count);

    for (size_t i = 0; i < count; i++)
        if (address >= objects[i].from && address < objects[i].to)
            return &objects[i];
    return NULL;
}

/* ---- symbols, with async-signal-safe calls only ---- */

struct image {
    const char *bytes;
    size_t size;
};

/* Returns `count` objects of `each` bytes at an offset; NULL if the file does not contain them. */
static const void *mapped_part_of(const struct image *image, uint64_t offset, uint64_t count,
                                  size_t each)
{
    if (offset > image->size || count > (image->size - offset) / each)
        return NULL;
    return image->bytes + offset;
}

/* Returns the full symbol table, or, if the file is stripped, the table of exported symbols. */
static const ElfW(Shdr) * find_table(const ElfW(Shdr) * sections, size_t count)
{
    const ElfW(Shdr) *found = NULL;

    for (size_t i = 0; i < count; i++) {
        if (sections[i].sh_type == SHT_SYMTAB)
            return &sections[i];
        if (sections[i].sh_type == SHT_DYNSYM)
            found = &sections[i];
    }
    return found;
}

static bool mapped_find_symbol(const struct image *image, const ElfW(Shdr) * table,
                               const ElfW(Shdr) * texts, uintptr_t at, char *name, size_t size,
                               size_t *into)
{
    size_t count = table->sh_size / sizeof(ElfW(Sym));
    const ElfW(Sym) *symbols = mapped_part_of(image, table->sh_offset, count, sizeof *symbols);
    const char *strings = mapped_part_of(image, texts->sh_offset, texts->sh_size, 1);

    for (size_t i = 0; symbols && strings && i < count; i++) {
        const ElfW(Sym) *symbol = &symbols[i];

        if ((symbol->st_info & 15) != STT_FUNC || at < symbol->st_value ||
            at - symbol->st_value >= symbol->st_size || symbol->st_name >= texts->sh_size)
            continue;
        const char *from = strings + symbol->st_name;
        size_t length = 0, most = texts->sh_size - symbol->st_name;

        for (; length + 1 < size && length < most && from[length]; length++)
            name[length] = from[length];
        name[length] = '\0';
        *into = at - symbol->st_value;
        return true;
    }
    return false;
}

static bool mapped_read_image(const struct image *image, uintptr_t at, char *name, size_t size,
                              size_t *into)
{
    const ElfW(Ehdr) *head = mapped_part_of(image, 0, 1, sizeof *head);

    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_shentsize != sizeof(ElfW(Shdr)))
        return false;
    const ElfW(Shdr) *sections =
        mapped_part_of(image, head->e_shoff, head->e_shnum, sizeof(ElfW(Shdr)));
    const ElfW(Shdr) *table = sections ? find_table(sections, head->e_shnum) : NULL;

    if (!table || table->sh_link >= head->e_shnum)
        return false;
    return mapped_find_symbol(image, table, &sections[table->sh_link], at, name, size, into);
}

bool mapped_files_symbol(const struct object *object, uintptr_t address, char *name, size_t size,
                         size_t *into)
{
    int fd = open(object->open, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    void *bytes = MAP_FAILED;

    if (fd < 0)
        return false;
    if (!fstat(fd, &about) && S_ISREG(about.st_mode) && about.st_size > 0)
        bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return false;
    struct image image = {bytes, (size_t)about.st_size};
    bool found = mapped_read_image(&image, address - object->base, name, size, into);

    munmap(bytes, image.size);
    return found;
}
