#include "core/module/module_load.h"

#include <dlfcn.h>
#include <link.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/lib/lifecycle_call.h"
#include "core/lib/log.h"
#include "core/lib/mapped_files.h"
#include "core/module/module_file.h"

/* ---- tables: copied into arrays with the host's row sizes ---- */

#define ROWS_MAX 4096
#define ROWS_ALL_MAX 16384 /* per module, because tables can contain the same table many times */
#define FIELDS_DEPTH_MAX 16

/* Error messages need at least these members. */
#define DESCRIPTOR_MIN (offsetof(struct bb_module, version) + sizeof(const char *))

struct copier {
    struct arena *arena;
    char *why;
    size_t why_size;
    size_t rows; /* number of rows copied */
};

static int module_copy_refuse(struct copier *copier, const char *table, const char *reason)
{
    snprintf(copier->why, copier->why_size, "table `%s` %s", table, reason);
    return -1;
}

/* Replaces *table by a copy with rows of row_size; *rows is the copy, which can be changed. */
static int module_copy_table(struct copier *copier, struct bb_table *table, size_t row_size,
                             const char *name, void **rows)
{
    *rows = NULL;
    if (!table->count) {
        *table = (struct bb_table){NULL, 0, row_size};
        return 0;
    }
    if (!table->rows)
        return module_copy_refuse(copier, name, "has a count but no rows");
    if (table->count > ROWS_MAX || table->count > ROWS_ALL_MAX - copier->rows)
        return module_copy_refuse(copier, name, "has too many rows to be true");
    if (table->stride < sizeof(void *) || table->stride % alignof(void *))
        return module_copy_refuse(copier, name, "has rows of an impossible size");
    if (table->stride > row_size)
        return module_copy_refuse(copier, name,
                                  "has larger rows than the module's ABI version knows: build "
                                  "the module with the headers of this host");
    char *copy = arena_alloc(copier->arena, table->count * row_size);

    copier->rows += table->count;
    if (!copy)
        return module_copy_refuse(copier, name, "out of memory");
    for (size_t i = 0; i < table->count; i++)
        memcpy(copy + i * row_size, (const char *)table->rows + i * table->stride, table->stride);
    *table = (struct bb_table){copy, table->count, row_size};
    *rows = copy;
    return 0;
}

static int module_copy_fields(struct copier *copier, struct bb_table *table, const char *name,
                              unsigned depth)
{
    void *rows;

    if (depth > FIELDS_DEPTH_MAX)
        return module_copy_refuse(copier, name, "is nested too deeply");
    if (module_copy_table(copier, table, sizeof(struct bb_field), name, &rows))
        return -1;
    struct bb_field *fields = rows;

    for (size_t i = 0; i < table->count; i++)
        if (module_copy_fields(copier, &fields[i].fields, name, depth + 1))
            return -1;
    return 0;
}

static int module_copy_tables(struct copier *copier, struct bb_module *copy)
{
    struct {
        struct bb_table *table;
        size_t row_size;
        const char *name;
    } plain[] = {
        {&copy->hooks, sizeof(struct bb_hook), "hooks"},
        {&copy->services, sizeof(struct bb_service_descriptor), "services"},
        {&copy->needs, sizeof(struct bb_need), "needs"},
        {&copy->channels, sizeof(struct bb_channel), "channels"},
        {&copy->jobs, sizeof(struct bb_job), "jobs"},
        {&copy->pools, sizeof(struct bb_pool), "pools"},
        {&copy->workers, sizeof(struct bb_worker), "workers"},
        {&copy->metrics, sizeof(struct bb_metric), "metrics"},
        {&copy->wants, sizeof(struct bb_need), "wants"},
    };
    void *rows, *parts;

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (module_copy_table(copier, plain[i].table, plain[i].row_size, plain[i].name, &rows))
            return -1;
    if (module_copy_fields(copier, &copy->settings, "settings", 0) ||
        module_copy_table(copier, &copy->routes, sizeof(struct bb_route), "routes", &rows))
        return -1;
    for (size_t i = 0; i < copy->routes.count; i++) {
        struct bb_route *route = &((struct bb_route *)rows)[i];

        if (module_copy_table(copier, &route->parts, sizeof(struct bb_part), "parts", &parts) ||
            module_copy_fields(copier, &route->segments, "segments", 0) ||
            module_copy_fields(copier, &route->query, "query", 0) ||
            module_copy_fields(copier, &route->body, "body", 0) ||
            module_copy_fields(copier, &route->reply, "reply", 0))
            return -1;
    }
    if (module_copy_table(copier, &copy->events, sizeof(struct bb_event_descriptor), "events",
                          &rows))
        return -1;
    for (size_t i = 0; i < copy->events.count; i++)
        if (module_copy_fields(copier, &((struct bb_event_descriptor *)rows)[i].payload, "payload",
                               0))
            return -1;
    if (module_copy_table(copier, &copy->commands, sizeof(struct bb_command), "commands", &rows))
        return -1;
    for (size_t i = 0; i < copy->commands.count; i++)
        if (module_copy_fields(copier, &((struct bb_command *)rows)[i].options, "options", 0))
            return -1;
    return 0;
}

/* Checks the first members, which have the same position in every version, before any others. */
static int module_check_head(struct copier *copier, const struct bb_module *descriptor,
                             size_t symbol_size)
{
    if (symbol_size && symbol_size < DESCRIPTOR_MIN)
        snprintf(copier->why, copier->why_size,
                 "its symbol " BB_MODULE_SYMBOL " is too small to be a module's descriptor");
    else if (descriptor->abi_major != BB_ABI_MAJOR)
        snprintf(copier->why, copier->why_size,
                 "was built for ABI %u.%u, this host has %d.%d: build the module with the headers "
                 "of this host",
                 descriptor->abi_major, descriptor->abi_minor, BB_ABI_MAJOR, BB_ABI_MINOR);
    else if (descriptor->abi_minor > BB_ABI_MINOR)
        snprintf(copier->why, copier->why_size,
                 "needs ABI %u.%u, this host has %d.%d: upgrade the host, or build the module with "
                 "older headers",
                 descriptor->abi_major, descriptor->abi_minor, BB_ABI_MAJOR, BB_ABI_MINOR);
    else if (descriptor->size < DESCRIPTOR_MIN || descriptor->size > sizeof(struct bb_module) ||
             (symbol_size && descriptor->size > symbol_size))
        snprintf(copier->why, copier->why_size,
                 "declares a descriptor of %zu bytes, which no header of ABI %u.%u does (this "
                 "host's, %d.%d: %zu): build the module with the headers of this host",
                 descriptor->size, descriptor->abi_major, descriptor->abi_minor, BB_ABI_MAJOR,
                 BB_ABI_MINOR, sizeof(struct bb_module));
    else
        return 0;
    return -1;
}

const struct bb_module *module_descriptor_copy(struct arena *arena,
                                               const struct bb_module *descriptor,
                                               size_t symbol_size, char *why, size_t why_size)
{
    struct copier copier = {arena, why, why_size, 0};

    if (module_check_head(&copier, descriptor, symbol_size))
        return NULL;
    struct bb_module *copy = arena_alloc(arena, sizeof *copy);

    if (!copy) {
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    memcpy(copy, descriptor, descriptor->size);
    copy->size = sizeof *copy;
    if (!copy->name || !copy->version) {
        snprintf(why, why_size, "has no name or no version in its descriptor");
        return NULL;
    }
    return module_copy_tables(&copier, copy) ? NULL : copy;
}

/* ---- files ---- */

#define OPEN_FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

/*
 * Loads the file under a path that is unique for its inode. The dynamic linker identifies files by
 * path, and would return the old code for an upgraded file with the same path, because code is
 * never unloaded. The path has the bits of the inode as ./ and / between directory and name. So the
 * same file always has the same path, and memory use does not grow with each reload.
 */
static void *module_open_anew(struct arena *arena, const char *path)
{
    void *known = dlopen(path, OPEN_FLAGS | RTLD_NOLOAD);
    const char *slash = strrchr(path, '/');
    char code[2 * 64 + 1];
    struct stat info;
    size_t used = 0;

    if (known)
        dlclose(known);
    if (!known || !slash)
        return dlopen(path, OPEN_FLAGS);
    if (stat(path, &info))
        return NULL;
    for (uint64_t inode = info.st_ino; inode; inode >>= 1) {
        if (inode & 1)
            code[used++] = '.';
        code[used++] = '/';
    }
    code[used] = '\0';
    const char *spelled =
        arena_format(arena, "%.*s/%s%s", (int)(slash - path), path, code, slash + 1);

    return spelled ? dlopen(spelled, OPEN_FLAGS) : NULL;
}

/*
 * Loads the file itself if no copy is possible, or if the code looks for libraries in its own
 * directory. This is safe only if nothing writes to the file. NULL with the reason in `why`.
 */
static void *module_open_in_place(struct arena *arena, const char *path, char *why, size_t why_size)
{
    struct module_file file = module_file_look(path);

    if (file.dl)
        return file.dl;
    if (file.overwritten) {
        snprintf(why, why_size,
                 "was written over while its code is in use: put a new file in its "
                 "place by rename, and restart the host");
        return NULL;
    }
    void *dl = module_open_anew(arena, path);

    if (!dl) {
        const char *text = dlerror();
        size_t length = strlen(path);

        /* the host's message contains the path already */
        if (text && !strncmp(text, path, length) && !strncmp(text + length, ": ", 2))
            text += length + 2;
        snprintf(why, why_size, "cannot be loaded: %s", text ? text : "reason unknown");
        return NULL;
    }
    module_file_note(&file, path, dl);
    log_line(BB_WARN,
             "module loaded from its file instead of a copy: replace the file by "
             "rename only, never by writing into it",
             "file", path, NULL);
    return dl;
}

/* Returns NULL with the reason in `why`, such as that the file was truncated during the copy. */
static void *module_open_file(struct arena *arena, const char *path, char *why, size_t why_size)
{
    char copy[MODULE_COPY_PATH];
    /* If the file was loaded without a copy, this code must be used again. */
    int fd = module_file_look(path).overwritten ? -1 : module_file_copy(path, copy);

    if (fd < 0)
        return module_open_in_place(arena, path, why, why_size);
    if (module_file_check(copy, why, why_size)) {
        close(fd);
        return NULL;
    }
    struct module_file file = module_file_look(copy);
    void *dl = file.dl ? file.dl : dlopen(copy, OPEN_FLAGS);

    if (dl && !file.dl) { /* the code owns the descriptor now */
        module_file_note(&file, copy, dl);
        return dl;
    }
    close(fd);
    return dl ? dl : module_open_in_place(arena, path, why, why_size);
}

void module_set_handle(struct core_module *module)
{
    module->handle.host.size = sizeof module->handle.host;
    module->handle.host.module = module->descriptor;
    module->handle.module = module;
}

/* Loads the file into `module`. Returns NULL, or the reason, which may be in `why`. */
static const char *module_load_file(struct core_module *module, struct arena *arena,
                                    const char *path, char *why, size_t why_size)
{
    if (module_file_check(path, why, why_size))
        return why;
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    const char *name = arena_text(arena, file, strcspn(file, "."));
    struct lifecycle_call call;

    module->path = arena_text(arena, path, strlen(path));
    if (!module->path || !name)
        return "out of memory";
    /* constructors of the file may run; the module's name is not known yet */
    lifecycle_call_begin(&call, name, "constructor");
    module->dl = module_open_file(arena, path, why, why_size);
    lifecycle_call_end(&call);
    mapped_files_snapshot();
    if (!module->dl)
        return why;
    const struct bb_module *descriptor = dlsym(module->dl, BB_MODULE_SYMBOL);
    void *entry = NULL;
    Dl_info info;

    if (!descriptor)
        return "is not a busbar module: it exports no " BB_MODULE_SYMBOL;
    if (!dladdr1(descriptor, &info, &entry, RTLD_DL_SYMENT))
        entry = NULL;
    const ElfW(Sym) *symbol = entry;

    if (symbol && ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT)
        return "is not a busbar module: its " BB_MODULE_SYMBOL " is not data";
    module->descriptor =
        module_descriptor_copy(arena, descriptor, symbol ? symbol->st_size : 0, why, why_size);
    if (!module->descriptor)
        return why;
    module_set_handle(module);
    mapped_files_module(descriptor, module->descriptor->name, path);
    const struct object *object = mapped_files_find((uintptr_t)descriptor);

    snprintf(module->build_id, sizeof module->build_id, "%s", object ? object->build : "");
    return NULL;
}

int module_load(struct core_module *module, struct arena *arena, const char *path,
                const char *where, struct setting_problems *problems)
{
    char why[512];
    const char *reason = module_load_file(module, arena, path, why, sizeof why);

    if (reason)
        setting_problem(problems, "%s: %s: %s", where, path, reason);
    return reason ? -1 : 0;
}
