/*
 * Loads a module's file: checks the ELF file before the dynamic linker uses it, checks its one
 * symbol (ABI, sizes), and copies its tables into arrays with the host's row sizes; members unknown
 * to the module are zero. All other code of the host uses these arrays.
 *
 * No function of the module is called here. Code is never unloaded; everything else is in the
 * generation's arena.
 */
#ifndef CORE_MODULE_LOAD_H
#define CORE_MODULE_LOAD_H

#include <busbar/host.h>

#include "core/lib/arena.h"
#include "core/lib/settings.h"
#include "core/module/account.h"

struct generation;
struct core_module;
struct meter;

/* A module's handle, followed by data that only the host uses. */
struct host_handle {
    struct bb_host host; /* first member: pointers to both are interchangeable */
    struct generation *generation;
    struct core_module *module;
    const struct setting_section *settings;
    const void *bound;              /* the module's settings struct; NULL: it has none */
    struct account *account;        /* NULL until the module is opened */
    int64_t limits[ACCOUNT_LIMITS]; /* from module_limits; in effect after generation_start() */
    bool limited;                   /* module_limits has an entry for the module */
    struct meter **meters;          /* one for each row of `metrics`; NULL for rows with `read` */
    char *open_problem; /* text of bb_open_fail(), from malloc(); generation_destroy() frees it */
    bool opening;       /* `open` is running: bb_host_alloc() is allowed */
    bool broken;        /* `open` read undeclared settings, so opening the module fails */
};

static inline struct host_handle *handle_of(struct bb_host *host)
{
    return (struct host_handle *)(void *)host;
}

/* Returns the resource counters of a module (account.h); NULL for the host. */
static inline struct account *account_of(const struct bb_host *host)
{
    return host ? ((const struct host_handle *)(const void *)host)->account : NULL;
}

struct core_module {
    const struct bb_module *descriptor; /* a deep copy; its tables have the host's row sizes */
    const char *path;
    void *dl;
    const char *build_id;      /* hexadecimal; "": the file has none */
    struct host_handle handle; /* handle.host.state is the state that `open` returned */
    bool opened, started;
};

/* Returns the rows of a copied table: MODULE_ROWS(bb_route, module->descriptor->routes)[i] */
#define MODULE_ROWS(type, table) ((const struct type *)(table).rows)

/* Visits each row of a copied table: MODULE_EACH (bb_route, route, module->descriptor->routes) */
#define MODULE_EACH(type, row, table)                                                              \
    for (const struct type *(row) = (table).rows;                                                  \
         (size_t)((row) - (const struct type *)(table).rows) < (table).count; (row)++)

/*
 * Checks whether the dynamic linker may load this file. Returns 0, or -1 with the reason in `why`.
 * Without this check, a truncated file would end the server process with SIGBUS in the linker, and
 * the linker's messages about files that are not modules are unclear.
 */
int module_file_check(const char *path, char *why, size_t why_size);

/*
 * Loads `path` into the zeroed *module. Returns 0, or -1 after adding a problem "`where`: file:
 * reason"; `where` is the place in the settings that names the module. Runs constructors of the
 * file, unless its code is already loaded. One thread at a time.
 */
int module_load(struct core_module *module, struct arena *arena, const char *path,
                const char *where, struct setting_problems *problems);

/* Sets up the module's handle after `module` was moved in memory. */
void module_set_handle(struct core_module *module);

/*
 * Copies the descriptor with all its tables, including nested ones, into rows of the host's size.
 * On failure returns NULL with the reason in `why`. `symbol_size`: size of the ELF symbol, or 0.
 */
const struct bb_module *module_descriptor_copy(struct arena *arena,
                                               const struct bb_module *descriptor,
                                               size_t symbol_size, char *why, size_t why_size);

#endif
