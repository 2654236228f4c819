/*
 * Checks the file of a module, makes a private copy, and identifies it. One thread at a time.
 *
 * Code is never unloaded. A file is identified by its content, because its build id would stay the
 * same if the file were edited. So files with the same content use the same loaded code, and memory
 * use grows with the number of builds, not of reloads.
 */
#ifndef CORE_MODULE_FILE_H
#define CORE_MODULE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Checks whether the dynamic linker may load this file. Returns 0, or -1 with the reason in `why`.
 * Without this check, a truncated file would end the server process with SIGBUS in the linker, and
 * the linker's messages about files that are not modules are unclear.
 */
int module_file_check(const char *path, char *why, size_t why_size);

/*
 * Copies the file to sealed memory. Returns its descriptor, with the path in `copy`; -1:
 * impossible. Without a copy, writing to the file (as cp does) would change the code of running
 * threads, and truncating the file would remove it. The descriptor must never be closed: the linker
 * identifies the code by its path, and debuggers read the copy from there.
 */
#define MODULE_COPY_PATH 64
int module_file_copy(const char *path, char copy[MODULE_COPY_PATH]);

enum { MODULE_DIGEST_SIZE = 32 };

struct module_file {
    bool readable;
    dev_t device;
    ino_t inode;
    unsigned char digest[MODULE_DIGEST_SIZE];
    void *dl;         /* code already loaded from a file with the same content; NULL: none */
    bool overwritten; /* the file was loaded without a copy, and has been written to since */
};

struct module_file module_file_look(const char *path);

/* Records that the code `dl` was loaded from the file. */
void module_file_note(const struct module_file *file, const char *path, void *dl);

#endif
