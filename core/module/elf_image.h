/*
 * Lays out a module's file in memory as the dynamic linker would, never executable, with relocated
 * internal addresses; addresses in other libraries stay zero. So the module's tables can be read
 * without running any code, not even constructors, and without the libraries that it needs.
 *
 * dlopen() in a forked child would not be sufficient: it runs the constructors of an unchecked file
 * with all permissions of this process, and fails without reading the tables if a library is
 * missing.
 *
 * A malicious file can contain arbitrary addresses: accessing the data they point to may fault.
 */
#ifndef CORE_ELF_IMAGE_H
#define CORE_ELF_IMAGE_H

#include "core/module/elf_file.h"

struct elf_image {
    char *base;
    size_t size;
};

/* Whether the relocations of this machine are supported. */
bool elf_image_possible(void);

/* Creates the image. Returns 0, or -1 with the reason in `why`. */
int elf_image_make(struct elf_image *image, const struct elf_file *file, char *why,
                   size_t why_size);
void elf_image_free(struct elf_image *image);

/*
 * Returns the exported object of this name, and its size. NULL: there is none, or it is outside of
 * the file.
 */
const void *elf_image_find(const struct elf_image *image, const struct elf_file *file,
                           const char *name, size_t *size);

#endif
