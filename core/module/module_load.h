/*
 * Loading a module's file: the ELF file is looked at before the dynamic linker may touch it, then
 * its one symbol is checked (ABI, sizes), and its tables are copied into arrays of the host's own
 * row sizes, with zeros where the module knew less. The rest of the host reads plain arrays and
 * never meets a stride.
 *
 * Nothing of the module is called here. Code is never unloaded; everything else lives in the
 * generation's arena.
 */
#ifndef CORE_MODULE_LOAD_H
#define CORE_MODULE_LOAD_H

#include <sys/types.h>

#include <busbar/host.h>

#include "core/base/arena.h"
#include "core/settings/settings.h"

struct generation;
struct core_module;
struct meter;

/* What a module gets as its handle, with what only the host knows behind it. */
struct host_handle {
    struct bb_host host; /* first: a pointer to one is a pointer to the other */
    struct generation *generation;
    struct core_module *module;
    const struct setting_section *settings;
    const void *bound;     /* what of them is bound to a struct of the module; NULL: it has none */
    struct meter **meters; /* of the rows of `metrics`; NULL where the module reads itself */
    char *open_problem;    /* the text of bb_open_fail(), malloc'ed; taken by who opens */
    bool opening;          /* `open` runs: bb_host_alloc() is allowed */
    bool broken;           /* it asked for what it does not declare: it must not serve */
};

static inline struct host_handle *handle_of(struct bb_host *host)
{
    return (struct host_handle *)(void *)host;
}

#define MODULE_BUILD_ID_SIZE 65

struct elf_image;

struct core_module {
    const struct bb_module
        *descriptor; /* a full copy; all its tables are arrays of the host's rows */
    const char *path;
    void *dl;                            /* NULL: it was read (module_read.h), not loaded */
    struct elf_image *image;             /* of one that was read */
    char build_id[MODULE_BUILD_ID_SIZE]; /* hexadecimal; "": the file has none */
    struct host_handle handle;           /* handle.host.state is what `open` returned */
    bool opened, started;
};

/* The rows of a copied table: MODULE_ROWS(bb_route, module->descriptor->routes)[i] */
#define MODULE_ROWS(type, table) ((const struct type *)(table).rows)

/*
 * Loads `path` into the zeroed *module. 0; or -1 with a problem "`where`: file: reason" added,
 * `where` being the place in the settings that names the module. May run constructors of the file.
 * One thread at a time.
 */
int module_load(struct core_module *module, struct arena *arena, const char *path,
                const char *where, struct setting_problems *problems);

/* Points its handle to it. */
void module_set_handle(struct core_module *module);

/* module_build.c; one thread at a time. */
#define MODULE_DIGEST_SIZE 32

struct module_file {
    dev_t device;
    ino_t inode;
    unsigned char digest[MODULE_DIGEST_SIZE];
};

/*
 * module_private.c: a sealed copy of the file in memory, as a descriptor; -1 with errno. Its path
 * is what the dynamic linker is given.
 */
#define MODULE_PRIVATE_PATH 64
int module_private_copy(const char *path);
void module_private_path(int fd, char path[MODULE_PRIVATE_PATH]);

/* What is in the file now. 0, or -1: it cannot be read, or there is no memory. */
int module_build_look(const char *path, struct module_file *file);

/* What was loaded from a file with the same content; NULL: none was. */
void *module_build_find(const struct module_file *file);

/* Whether this very file is loaded in its place, not as a copy, and something else was written into
 * it since: it has its inode as long as it is mapped. */
bool module_build_overwritten(const struct module_file *file);

/* Remembers what was just loaded from the file. */
void module_build_note(const char *path, const struct module_file *file, void *dl);

/* The build id of what is loaded, in hexadecimal; "": it has none. */
void module_build_id(void *dl, char id[MODULE_BUILD_ID_SIZE]);

/*
 * Why the dynamic linker must not be given this file, in `why`; 0 when it may. A truncated file
 * would end the process with SIGBUS.
 */
int module_file_check(const char *path, char *why, size_t why_size);

/*
 * A copy of the descriptor with all its tables, nested ones too, in host rows. NULL with the reason
 * in `why`. `symbol_size` is that of the ELF symbol, 0 if not known.
 */
const struct bb_module *module_descriptor_copy(struct arena *arena,
                                               const struct bb_module *descriptor,
                                               size_t symbol_size, char *why, size_t why_size);

#endif
