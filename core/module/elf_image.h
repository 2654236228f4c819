/*
 * A module's file laid out in memory as the dynamic linker would do it, with its own addresses put
 * in and those of other libraries left zero; never executable. So its tables can be read without
 * running a line of it, constructors included, and without the libraries that it needs.
 *
 * Why not dlopen() in a forked child: it runs the constructors of a file that nobody has judged
 * yet, with all that this process may do, and fails where a library that the module needs is
 * missing, before anything of its tables is known.
 *
 * Addresses in a file made to deceive may point anywhere: reading what they point to may fault.
 */
#ifndef CORE_ELF_IMAGE_H
#define CORE_ELF_IMAGE_H

#include "core/module/elf_file.h"

struct elf_image {
    char *base;
    size_t size;
};

/* Whether the relocations of this machine are known. */
bool elf_image_possible(void);

/* 0; or -1 with the reason in `why`. */
int elf_image_make(struct elf_image *image, const struct elf_file *file, char *why,
                   size_t why_size);
void elf_image_free(struct elf_image *image);

/*
 * The exported data of this name, and its size. NULL: there is none, or it lies outside of the
 * file.
 */
const void *elf_image_find(const struct elf_image *image, const struct elf_file *file,
                           const char *name, size_t *size);

#endif
