/*
 * The file of a module: its check, its private copy, and its identity. One thread at a time.
 *
 * Code is never unloaded. A file is identified by its content (a build id stays the same if a file
 * is edited), so a file that is replaced by an identical one uses the code that is already loaded,
 * and memory use grows with the number of builds, not of reloads.
 */
#ifndef CORE_MODULE_FILE_H
#define CORE_MODULE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Checks whether the dynamic linker may load this file: returns 0, or -1 with the reason in `why`.
 * This is all that the host reads of the ELF format. It is needed in the serving process: a
 * truncated file would end it with SIGBUS in the linker, whose messages about files that are not
 * modules are unclear, too.
 */
int module_file_check(const char *path, char *why, size_t why_size);

/*
 * Returns the descriptor of a sealed copy of the file in memory; -1: none is possible. Writing into
 * the file itself (as cp does) would change the code of running threads, and truncating it would
 * remove the code. The descriptor must stay open as long as the code, which means forever: the
 * linker identifies the code by its path, and debuggers find the copy there.
 */
#define MODULE_COPY_PATH 64
int module_file_copy(const char *path, char copy[MODULE_COPY_PATH]);

enum { MODULE_DIGEST_SIZE = 32 };

struct module_file {
    bool readable;
    dev_t device;
    ino_t inode;
    unsigned char digest[MODULE_DIGEST_SIZE];
    void *dl;         /* code that was loaded from a file with the same content; NULL: none */
    bool overwritten; /* this file itself was loaded, not a copy, and was written to since */
};

struct module_file module_file_look(const char *path);

/* Records code that was just loaded from the file. */
void module_file_note(const struct module_file *file, const char *path, void *dl);

#endif
