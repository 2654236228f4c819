/*
 * The files whose code is mapped: the program, its libraries, the modules. The table is made
 * beforehand, so that a signal handler can name an address: it reads the table, and of the file
 * its table of symbols, by open() and mmap() alone. Code is never unloaded, so rows stay.
 */
#ifndef CORE_MAPPED_FILES_H
#define CORE_MAPPED_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OBJECT_NAME = 64, OBJECT_PATH = 256, OBJECT_BUILD = 41 };

struct object {
    uintptr_t base, from, to; /* what is added to the file's addresses; its range in memory */
    char name[OBJECT_NAME];   /* a module's name, or that of the file */
    char file[OBJECT_PATH];   /* what people know it by */
    char open[OBJECT_PATH];   /* where its bytes are */
    char build[OBJECT_BUILD]; /* build id in hexadecimal, or "" */
    bool module;
};

/* Looks at what is loaded now and adds what is new. One thread at a time. */
void mapped_files_look(void);

/* The object with this address is a module's, from this file. After mapped_files_look(). */
void mapped_files_module(const void *address, const char *name, const char *file);

/* Rows by their number, as they were added; NULL behind the last one. Async-signal-safe. */
const struct object *mapped_files_at(size_t index);

/* The one with this address; NULL: none. Async-signal-safe. */
const struct object *mapped_files_find(uintptr_t address);

/*
 * Writes the name of the function at the address, and sets how far into it that is. false: not
 * known. Async-signal-safe.
 */
bool mapped_files_symbol(const struct object *object, uintptr_t address, char *name, size_t size,
                         size_t *into);

#endif
