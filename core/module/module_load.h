/*
 * Loads a module's file: checks the ELF file before the dynamic linker may use it, checks its one
 * symbol (ABI, sizes), and copies its tables into arrays with the host's row sizes; members unknown
 * to the module are zero. All other code of the host uses these plain arrays, and no strides.
 *
 * No function of the module is called here. Code is never unloaded; everything else is in the
 * generation's arena.
 */
#ifndef CORE_MODULE_LOAD_H
#define CORE_MODULE_LOAD_H

#include <sys/types.h>

#include <busbar/host.h>

#include "core/base/arena.h"
#include "core/recovery/mapped_files.h"
#include "core/settings/settings.h"

struct generation;
struct core_module;
struct meter;

/* A module's handle, followed by data that only the host uses. */
struct host_handle {
    struct bb_host host; /* first member: pointers to both are interchangeable */
    struct generation *generation;
    struct core_module *module;
    const struct setting_section *settings;
    const void *bound;     /* the module's settings struct; NULL: it has none */
    struct meter **meters; /* for the rows of `metrics`; NULL for rows that the module reads */
    char *open_problem;    /* the text of bb_open_fail(), from malloc(); taken by the caller of
                            * `open` */
    bool opening;          /* `open` is running: bb_host_alloc() is allowed */
    bool broken;           /* it used undeclared names, so it must not serve */
};

static inline struct host_handle *handle_of(struct bb_host *host)
{
    return (struct host_handle *)(void *)host;
}

struct core_module {
    const struct bb_module *descriptor; /* a full copy; all its tables have the host's row sizes */
    const char *path;
    void *dl;
    char build_id[OBJECT_BUILD]; /* hexadecimal; "": the file has none */
    struct host_handle handle;   /* handle.host.state is the state that `open` returned */
    bool opened, started;
};

/* The rows of a copied table: MODULE_ROWS(bb_route, module->descriptor->routes)[i] */
#define MODULE_ROWS(type, table) ((const struct type *)(table).rows)

/*
 * Loads `path` into the zeroed *module. Returns 0, or -1 after adding a problem "`where`: file:
 * reason"; `where` is the place in the settings that names the module. May run constructors of the
 * file. One thread at a time.
 */
int module_load(struct core_module *module, struct arena *arena, const char *path,
                const char *where, struct setting_problems *problems);

/* Makes its handle point to it. */
void module_set_handle(struct core_module *module);

/* module_build.c; one thread at a time. */
#define MODULE_DIGEST_SIZE 32

struct module_file {
    dev_t device;
    ino_t inode;
    unsigned char digest[MODULE_DIGEST_SIZE];
};

/*
 * module_private.c: creates a sealed copy of the file in memory, as a descriptor; -1 with errno.
 * The dynamic linker gets the path of the descriptor.
 */
#define MODULE_PRIVATE_PATH 64
int module_private_copy(const char *path);
void module_private_path(int fd, char path[MODULE_PRIVATE_PATH]);

/* Describes the current content of the file. Returns 0, or -1: cannot be read, or out of memory. */
int module_build_look(const char *path, struct module_file *file);

/* Returns the code that was loaded from a file with the same content; NULL: none. */
void *module_build_find(const struct module_file *file);

/*
 * Whether this file itself was loaded, not a copy, and was written to since. The inode stays the
 * same as long as it is mapped.
 */
bool module_build_overwritten(const struct module_file *file);

/* Records code that was just loaded from the file. */
void module_build_note(const char *path, const struct module_file *file, void *dl);

/*
 * Checks whether the dynamic linker may load this file: returns 0, or -1 with the reason in `why`.
 * A truncated file would end the process with SIGBUS.
 */
int module_file_check(const char *path, char *why, size_t why_size);

/*
 * Copies the descriptor with all its tables, including nested ones, into rows of the host's size.
 * NULL with the reason in `why`. `symbol_size` is the size of the ELF symbol, 0 if unknown.
 */
const struct bb_module *module_descriptor_copy(struct arena *arena,
                                               const struct bb_module *descriptor,
                                               size_t symbol_size, char *why, size_t why_size);

#endif
