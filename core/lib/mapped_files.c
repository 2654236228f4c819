#include "core/lib/mapped_files.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OBJECTS_MAX = 256 };

static struct object objects[OBJECTS_MAX];
static atomic_size_t object_count;

static void hexadecimal(char *out, const unsigned char *bytes, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;

    for (size_t i = 0; i < length && used + 2 < OBJECT_BUILD; i++) {
        out[used++] = digits[bytes[i] >> 4];
        out[used++] = digits[bytes[i] & 15];
    }
    out[used] = '\0';
}

/* Notes in memory are aligned to four bytes. */
static void find_build(struct object *object, const char *notes, size_t size)
{
    size_t at = 0;

    while (at + sizeof(ElfW(Nhdr)) <= size) {
        const ElfW(Nhdr) *note = (const void *)(notes + at);
        size_t name = (note->n_namesz + 3U) & ~3U, text = (note->n_descsz + 3U) & ~3U;

        if (name > size || text > size || at + sizeof *note + name + text > size)
            return;
        const char *owner = notes + at + sizeof *note;
        if (note->n_type == NT_GNU_BUILD_ID && name == 4 && !memcmp(owner, "GNU", 4))
            hexadecimal(object->build, (const unsigned char *)owner + name, note->n_descsz);
        at += sizeof *note + name + text;
    }
}

static void find_range(struct object *object, const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;

        if (part->p_type == PT_NOTE)
            find_build(object, (const char *)from, part->p_filesz); // NOLINT
        if (part->p_type != PT_LOAD)
            continue;
        if (!object->to || from < object->from)
            object->from = from;
        if (to > object->to)
            object->to = to;
    }
}

static void name_it(struct object *object, const char *path)
{
    char own[OBJECT_PATH];
    ssize_t length = *path ? 0 : readlink("/proc/self/exe", own, sizeof own - 1);

    if (length > 0)
        own[length] = '\0';
    const char *file = length > 0 ? own : path;
    const char *slash = strrchr(file, '/');

    snprintf(object->open, sizeof object->open, "%s", *path ? path : "/proc/self/exe");
    snprintf(object->file, sizeof object->file, "%s", file);
    snprintf(object->name, sizeof object->name, "%.63s", slash ? slash + 1 : file);
}

static bool is_known(uintptr_t base, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (objects[i].base == base)
            return true;
    return false;
}

static int add(struct dl_phdr_info *info, size_t size, void *arg)
{
    size_t count = atomic_load(&object_count);

    (void)size;
    (void)arg;
    if (count == OBJECTS_MAX || is_known(info->dlpi_addr, count))
        return 0;
    struct object *object = &objects[count];

    *object = (struct object){.base = info->dlpi_addr};
    find_range(object, info);
    name_it(object, info->dlpi_name);
    atomic_store(&object_count, count + 1);
    return 0;
}

void mapped_files_snapshot(void)
{
    dl_iterate_phdr(add, NULL);
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
