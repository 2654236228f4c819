#include "core/module/module_load.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/lib/lifecycle_call.h"
#include "core/lib/log.h"
#include "core/lib/mapped_files.h"
#include "core/module/module_file.h"

#define OPEN_FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

/*
 * The dynamic linker identifies files by the path they were opened with, and would return the old
 * code for an upgraded file with the same path. Since code is never unloaded, the new file needs
 * another path: the bits of its inode as ./ and / between directory and name. The same file always
 * has the same path, so memory use does not grow with each reload.
 */
static const char *spell(struct arena *arena, const char *path, uint64_t inode)
{
    char code[2 * 64 + 1];
    size_t used = 0;
    const char *slash = strrchr(path, '/');

    if (!slash)
        return path;
    for (; inode; inode >>= 1) {
        if (inode & 1)
            code[used++] = '.';
        code[used++] = '/';
    }
    code[used] = '\0';
    return arena_format(arena, "%.*s/%s%s", (int)(slash - path), path, code, slash + 1);
}

static void *open_anew(struct arena *arena, const char *path)
{
    void *known = dlopen(path, OPEN_FLAGS | RTLD_NOLOAD);
    struct stat info;

    if (!known)
        return dlopen(path, OPEN_FLAGS);
    dlclose(known);
    if (stat(path, &info))
        return NULL;
    const char *spelled = spell(arena, path, info.st_ino);

    return spelled ? dlopen(spelled, OPEN_FLAGS) : NULL;
}

/* Returns the linker's message without the path at its beginning, which our message has already. */
static const char *link_error(const char *path)
{
    const char *text = dlerror();
    size_t length = strlen(path);

    if (!text)
        return "reason unknown";
    if (!strncmp(text, path, length) && !strncmp(text + length, ": ", 2))
        text += length + 2;
    return text;
}

/*
 * Loads the file itself if no copy is possible, or if the code looks for libraries in its own
 * directory. Safe only as long as nobody writes into the file. NULL with the reason in `why`.
 */
static void *open_in_place(struct arena *arena, const char *path, char *why, size_t why_size)
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
    void *dl = open_anew(arena, path);

    if (!dl) {
        snprintf(why, why_size, "cannot be loaded: %s", link_error(path));
        return NULL;
    }
    module_file_note(&file, path, dl);
    log_line(BB_WARN,
             "a module is loaded from its file, not from a copy: replace the file by "
             "rename only, never by writing into it",
             "file", path, NULL);
    return dl;
}

/* NULL with the reason in `why`, for instance that the file was truncated while it was copied. */
static void *open_file(struct arena *arena, const char *path, char *why, size_t why_size)
{
    char copy[MODULE_COPY_PATH];
    /* If code was loaded from this file itself, it must be used again. */
    int fd = module_file_look(path).overwritten ? -1 : module_file_copy(path, copy);

    if (fd < 0)
        return open_in_place(arena, path, why, why_size);
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
    return dl ? dl : open_in_place(arena, path, why, why_size);
}

/* Constructors of the file may run. The module's name is not known yet. */
static void *open_noted(struct arena *arena, const char *path, char *why, size_t why_size)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    const char *name = arena_text(arena, file, strcspn(file, "."));
    struct lifecycle_call call;

    lifecycle_call_begin(&call, name ? name : file, "constructor");
    void *dl = open_file(arena, path, why, why_size);

    lifecycle_call_end(&call);
    mapped_files_snapshot();
    return dl;
}

static int refuse(struct setting_problems *problems, const char *where, const char *path,
                  const char *reason)
{
    setting_problem(problems, "%s: %s: %s", where, path, reason);
    return -1;
}

/* Returns the exported symbol with its size; NULL with the reason in `why`. */
static const struct bb_module *find_descriptor(void *dl, size_t *size, char *why, size_t why_size)
{
    const struct bb_module *descriptor = dlsym(dl, BB_MODULE_SYMBOL);
    Dl_info info;
    void *entry = NULL;

    *size = 0;
    if (!descriptor) {
        snprintf(why, why_size, "is not a busbar module: it exports no " BB_MODULE_SYMBOL);
        return NULL;
    }
    if (!dladdr1(descriptor, &info, &entry, RTLD_DL_SYMENT) || !entry)
        return descriptor;
    const ElfW(Sym) *symbol = entry;

    *size = symbol->st_size;
    if (ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT)
        return descriptor;
    snprintf(why, why_size, "is not a busbar module: its " BB_MODULE_SYMBOL " is not data");
    return NULL;
}

void module_set_handle(struct core_module *module)
{
    module->handle.host.size = sizeof module->handle.host;
    module->handle.host.module = module->descriptor;
    module->handle.module = module;
}

int module_load(struct core_module *module, struct arena *arena, const char *path,
                const char *where, struct setting_problems *problems)
{
    char why[512];
    size_t size;

    if (module_file_check(path, why, sizeof why))
        return refuse(problems, where, path, why);
    module->path = arena_text(arena, path, strlen(path));
    module->dl = open_noted(arena, path, why, sizeof why);
    if (!module->path)
        return refuse(problems, where, path, "out of memory");
    if (!module->dl)
        return refuse(problems, where, path, why);
    const struct bb_module *descriptor = find_descriptor(module->dl, &size, why, sizeof why);

    if (!descriptor)
        return refuse(problems, where, path, why);
    module->descriptor = module_descriptor_copy(arena, descriptor, size, why, sizeof why);
    if (!module->descriptor)
        return refuse(problems, where, path, why);
    module_set_handle(module);
    mapped_files_module(descriptor, module->descriptor->name, path);
    const struct object *object = mapped_files_find((uintptr_t)descriptor);

    snprintf(module->build_id, sizeof module->build_id, "%s", object ? object->build : "");
    return 0;
}
