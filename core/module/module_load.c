#include "core/module/module_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <openssl/evp.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/lib/crash.h"
#include "core/lib/log.h"
#include "core/lib/thread.h"

/* ---- tables: copied into arrays with the host's row sizes ---- */

#define ROWS_MAX 4096
#define ROWS_ALL_MAX 16384 /* per module: many rows may contain the same table */
#define DEPTH_MAX 17       /* limits the nesting of tables, which may contain themselves */

/* Size of the members up to `version`, which error messages need. */
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

/* A table in a descriptor, or in the rows of another table. */
struct table_kind {
    const char *name;
    size_t at;                      /* offset of its struct bb_table in the descriptor or row */
    size_t row_size;                /* the host's size of a row */
    const struct table_kind *inner; /* kinds of the tables in a row; NULL: a row has none */
};

#define TABLE(in, member, row, inside)                                                             \
    {                                                                                              \
        .name = #member, .at = offsetof(struct in, member), .row_size = sizeof(struct row),        \
        .inner = (inside)                                                                          \
    }
#define FIELDS(in, member) TABLE(in, member, bb_field, in_field)

static const struct table_kind in_field[2] = {FIELDS(bb_field, fields), {0}};
static const struct table_kind in_route[] = {TABLE(bb_route, parts, bb_part, NULL),
                                             FIELDS(bb_route, segments),
                                             FIELDS(bb_route, query),
                                             FIELDS(bb_route, body),
                                             FIELDS(bb_route, reply),
                                             {0}};
static const struct table_kind in_event[] = {FIELDS(bb_event_descriptor, payload), {0}};
static const struct table_kind in_command[] = {FIELDS(bb_command, options), {0}};
static const struct table_kind in_module[] = {
    FIELDS(bb_module, settings),
    TABLE(bb_module, routes, bb_route, in_route),
    TABLE(bb_module, events, bb_event_descriptor, in_event),
    TABLE(bb_module, hooks, bb_hook, NULL),
    TABLE(bb_module, services, bb_service_descriptor, NULL),
    TABLE(bb_module, needs, bb_need, NULL),
    TABLE(bb_module, wants, bb_need, NULL),
    TABLE(bb_module, channels, bb_channel, NULL),
    TABLE(bb_module, jobs, bb_job, NULL),
    TABLE(bb_module, pools, bb_pool, NULL),
    TABLE(bb_module, workers, bb_worker, NULL),
    TABLE(bb_module, metrics, bb_metric, NULL),
    TABLE(bb_module, commands, bb_command, in_command),
    {0}};

/* Replaces *table by a writable copy whose rows have the host's size. */
static int module_copy_table(struct copier *copier, struct bb_table *table,
                             const struct table_kind *kind)
{
    size_t row_size = kind->row_size;
    char *copy = NULL;

    if (table->count && !table->rows)
        return module_copy_refuse(copier, kind->name, "has a count but no rows");
    if (table->count > ROWS_MAX || table->count > ROWS_ALL_MAX - copier->rows)
        return module_copy_refuse(copier, kind->name, "has an impossible number of rows");
    if (table->count && (table->stride < sizeof(void *) || table->stride % alignof(void *)))
        return module_copy_refuse(copier, kind->name, "has rows of an impossible size");
    if (table->count && table->stride > row_size)
        return module_copy_refuse(copier, kind->name,
                                  "has larger rows than the module's ABI version knows: build "
                                  "the module with the headers of this host");
    if (table->count && !(copy = arena_alloc(copier->arena, table->count * row_size)))
        return module_copy_refuse(copier, kind->name, "out of memory");
    copier->rows += table->count;
    for (size_t i = 0; i < table->count; i++)
        memcpy(copy + i * row_size, (const char *)table->rows + i * table->stride, table->stride);
    *table = (struct bb_table){copy, table->count, row_size};
    return 0;
}

/* Copies the tables in a descriptor or row, with the tables in their rows. */
static int module_copy_tables(struct copier *copier, void *row, const struct table_kind *kinds,
                              unsigned depth)
{
    for (const struct table_kind *kind = kinds; kind->name; kind++) {
        struct bb_table *table = (struct bb_table *)(void *)((char *)row + kind->at);

        if (depth > DEPTH_MAX)
            return module_copy_refuse(copier, kind->name, "is nested too deeply");
        if (module_copy_table(copier, table, kind))
            return -1;
        char *rows = (char *)(uintptr_t)table->rows;

        for (size_t i = 0; kind->inner && i < table->count; i++)
            if (module_copy_tables(copier, rows + i * kind->row_size, kind->inner, depth + 1))
                return -1;
    }
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
    return module_copy_tables(&copier, copy, in_module, 0) ? NULL : copy;
}

/* ---- the check of a file ---- */

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* since Linux 6.3; older kernels always allow execution */
#endif

#define PROGRAM_HEADERS_MAX 64
#define MODULE_COPY_PATH 64
#define MODULE_DIGEST_SIZE 32

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE /* the machine is not checked */
#endif

#define FILE_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)
#define FILE_DATA (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB)

/* Returns the larger of `size` and `offset` + `length`; UINT64_MAX if the sum overflows. */
static uint64_t module_file_size_with(uint64_t size, uint64_t offset, uint64_t length)
{
    uint64_t end = length > UINT64_MAX - offset ? UINT64_MAX : offset + length;

    return end > size ? end : size;
}

/* Returns the minimum size of the file according to its headers. */
static uint64_t module_file_size_needed(int fd, const ElfW(Ehdr) * head, uint64_t size)
{
    ElfW(Phdr) segments[PROGRAM_HEADERS_MAX];
    size_t length = head->e_phnum * sizeof segments[0];
    uint64_t needed = module_file_size_with(0, head->e_phoff, length);

    if (needed > size || pread(fd, segments, length, (off_t)head->e_phoff) != (ssize_t)length)
        return module_file_size_with(needed, size, 1);
    for (size_t i = 0; i < head->e_phnum; i++)
        if (segments[i].p_type != PT_NULL)
            needed = module_file_size_with(needed, segments[i].p_offset, segments[i].p_filesz);
    return head->e_shoff ? module_file_size_with(needed, head->e_shoff,
                                                 (uint64_t)head->e_shnum * head->e_shentsize)
                         : needed;
}

/* Reads and checks the ELF header; does not check the file's size. Returns a problem, or NULL. */
static const char *module_file_head_problem(int fd, const struct stat *info, ElfW(Ehdr) * head)
{
    if (!S_ISREG(info->st_mode))
        return "is not a regular file";
    if (!info->st_size)
        return "is empty";
    if (pread(fd, head, sizeof *head, 0) != (ssize_t)sizeof *head ||
        memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return "is not an ELF file, and therefore not a module";
    if (head->e_ident[EI_CLASS] != FILE_CLASS || head->e_ident[EI_DATA] != FILE_DATA ||
        (MACHINE != EM_NONE && head->e_machine != MACHINE))
        return "was built for another machine; build it for this one";
    if (head->e_type != ET_DYN)
        return "is not a shared object, and therefore not a module";
    if (head->e_phentsize != sizeof(ElfW(Phdr)) || !head->e_phnum ||
        head->e_phnum > PROGRAM_HEADERS_MAX)
        return "is damaged: its program headers are invalid";
    return NULL;
}

int module_file_check(const char *path, char *why, size_t why_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat info;
    ElfW(Ehdr) head;

    if (fd < 0 || fstat(fd, &info)) {
        snprintf(why, why_size, "cannot be read: %s%s", strerror(errno),
                 errno == ENOENT ? "; check that it is installed, and check `module_path`" : "");
        if (fd >= 0)
            close(fd);
        return -1;
    }
    const char *problem = module_file_head_problem(fd, &info, &head);
    uint64_t size = (uint64_t)info.st_size;
    uint64_t needed = problem ? 0 : module_file_size_needed(fd, &head, size);

    close(fd);
    if (problem)
        snprintf(why, why_size, "%s", problem);
    else if (needed > size)
        snprintf(why, why_size, "is truncated: it has %llu bytes and should have at least %llu",
                 (unsigned long long)size, (unsigned long long)needed);
    return problem || needed > size ? -1 : 0;
}

/*
 * Copies the file to a sealed memfd. Returns its descriptor and sets `copy` to its path; -1 on
 * failure. Without a copy, writing to the file (as cp does) would change the code of running
 * threads, and truncating the file would remove code. Once code is loaded from the copy, the
 * descriptor must stay open: the linker and debuggers identify the code by this path.
 */
static int module_file_copy(const char *path, char copy[MODULE_COPY_PATH])
{
    const char *slash = strrchr(path, '/');
    char name[128]; /* shown in /proc/PID/maps */
    ssize_t went = 1;

    snprintf(name, sizeof name, "%s", slash ? slash + 1 : path);
    int from = open(path, O_RDONLY | O_CLOEXEC);
    int to = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

    if (to < 0)
        to = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    while (from >= 0 && to >= 0 && went > 0)
        went = sendfile(to, from, NULL, 1 << 20);
    if (from >= 0)
        close(from);
    /* With the process id instead of `self`, an attached debugger also finds the file. */
    snprintf(copy, MODULE_COPY_PATH, "/proc/%ld/fd/%d", (long)getpid(), to);
    if (to >= 0 && !went &&
        !fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return to;
    if (to >= 0)
        close(to);
    return -1;
}

/*
 * ---- the identity of files ----
 *
 * Code is never unloaded. A file is identified by its content, because its build id would stay the
 * same if the file were edited. So files with the same content use the same loaded code, and memory
 * use grows with the number of builds, not of reloads.
 */

struct module_file {
    bool readable;
    dev_t device;
    ino_t inode;
    unsigned char digest[MODULE_DIGEST_SIZE];
    void *dl;         /* code already loaded from a file with the same content; NULL: none */
    bool overwritten; /* the file was loaded without a copy, and has been written to since */
};

struct build {
    struct build *next;
    void *dl;
    struct module_file file;
};

static struct build *builds; /* all code that this process has loaded; never freed */

static bool module_file_read_digest(int fd, unsigned char digest[MODULE_DIGEST_SIZE])
{
    enum { PIECE = 65536 };
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned char *piece = malloc(PIECE);
    bool fine = context && piece && EVP_DigestInit_ex(context, EVP_sha256(), NULL);
    ssize_t got = fine ? 1 : -1;

    while (got > 0) {
        got = read(fd, piece, PIECE);
        if (got > 0 && !EVP_DigestUpdate(context, piece, (size_t)got))
            got = -1;
    }
    fine = !got && EVP_DigestFinal_ex(context, digest, NULL);
    free(piece);
    EVP_MD_CTX_free(context);
    return fine;
}

static struct module_file module_file_look(const char *path)
{
    struct module_file file = {.readable = false};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;

    if (fd < 0)
        return file;
    file.readable = !fstat(fd, &info) && module_file_read_digest(fd, file.digest);
    close(fd);
    if (!file.readable)
        return file;
    file.device = info.st_dev;
    file.inode = info.st_ino;
    bool met = false; /* whether the newest build from this inode was compared */

    for (const struct build *build = builds; build; build = build->next) {
        bool same = !memcmp(build->file.digest, file.digest, sizeof file.digest);

        if (same && !file.dl)
            file.dl = build->dl;
        if (!met && build->file.device == file.device && build->file.inode == file.inode) {
            met = true;
            file.overwritten = !same;
        }
    }
    return file;
}

/* Records that the code `dl` was loaded from the file. */
static void module_file_note(const struct module_file *file, const char *path, void *dl)
{
    struct stat info;
    struct build *build = NULL;

    if (file->readable && !stat(path, &info) && info.st_dev == file->device &&
        info.st_ino == file->inode)
        build = calloc(1, sizeof *build);
    if (!build)
        return; /* as a result, a reload may load the same code again */
    *build = (struct build){builds, dl, *file};
    builds = build;
}

/* ---- loading ---- */

#define OPEN_FLAGS (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

/*
 * Loads the file. The dynamic linker identifies files by path and never unloads code. If it knows
 * the path already, it would return the code of the previous file at this path. In this case the
 * path gets redundant ./ and / before the file's name, which encode the inode number. The same file
 * always gets the same path, so memory use does not grow with each reload.
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
 * Loads the file itself, because no copy is possible, or the copy cannot be loaded (libraries in
 * $ORIGIN). This is safe only if nothing writes to the file. NULL with the reason in `why`.
 */
static void *module_open_in_place(struct arena *arena, const char *path, char *why, size_t why_size)
{
    struct module_file file = module_file_look(path);

    if (file.dl)
        return file.dl;
    if (file.overwritten) {
        snprintf(why, why_size,
                 "was overwritten while its code is in use: replace the file by a rename, and "
                 "restart the host");
        return NULL;
    }
    void *dl = module_open_anew(arena, path);

    if (!dl) {
        const char *text = dlerror();
        size_t length = strlen(path);

        /* removes the path, because module_load() adds it to the message */
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

/* Loads a copy of the file, or else the file itself. Returns NULL with the reason in `why`. */
static void *module_open_file(struct arena *arena, const char *path, char *why, size_t why_size)
{
    char copy[MODULE_COPY_PATH];
    /* for an overwritten file, module_open_in_place() returns the error */
    int fd = module_file_look(path).overwritten ? -1 : module_file_copy(path, copy);

    if (fd < 0)
        return module_open_in_place(arena, path, why, why_size);
    if (module_file_check(copy, why, why_size)) {
        close(fd);
        return NULL;
    }
    struct module_file file = module_file_look(copy);
    void *dl = file.dl ? file.dl : dlopen(copy, OPEN_FLAGS);

    if (dl && !file.dl) { /* `fd` stays open as long as the code is loaded */
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
    /* records the file's name while constructors run; the module's name is not known yet */
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
    module->build_id = mapped_files_module(descriptor, module->descriptor->name, path);
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
