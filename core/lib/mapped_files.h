/*
 * A table of the files whose code is mapped: the program, its libraries, the modules. It is created
 * in advance for signal handlers, which find the symbol of an address with this table and the
 * file's symbol table, using only open() and mmap(). Code is never unloaded, so rows are never
 * removed.
 */
#ifndef CORE_MAPPED_FILES_H
#define CORE_MAPPED_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { OBJECT_NAME = 64, OBJECT_PATH = 256, OBJECT_BUILD = 65 };

struct object {
    /* the offset between addresses in the file and in memory; its range in memory */
    uintptr_t base, from, to;
    char name[OBJECT_NAME];   /* the module's name, or the file's */
    char file[OBJECT_PATH];   /* the path shown in reports */
    char open[OBJECT_PATH];   /* the path from which it can be read */
    char build[OBJECT_BUILD]; /* build id in hexadecimal, or "" */
    bool module;
};

/* Adds files that were loaded since the last call. One thread at a time. */
void mapped_files_snapshot(void);

/* Marks the object with this address as a module from this file. Call after
 * mapped_files_snapshot(). */
void mapped_files_module(const void *address, const char *name, const char *file);

/* Returns a row by index, in the order of addition; NULL after the last. Async-signal-safe. */
const struct object *mapped_files_at(size_t index);

/* Returns the object that contains this address; NULL: none. Async-signal-safe. */
const struct object *mapped_files_find(uintptr_t address);

/*
 * Writes the name of the function at the address, and sets *into to the offset in the function.
 * Returns false if it is unknown. Async-signal-safe.
 */
bool mapped_files_symbol(const struct object *object, uintptr_t address, char *name, size_t size,
                         size_t *into);

#endif
