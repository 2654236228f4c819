#include "core/module/module_file.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* since Linux 6.3; older kernels always allow execution */
#endif

#define PROGRAM_HEADERS_MAX 64

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_NONE /* the machine is not checked */
#endif

#define FILE_CLASS (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)
#define FILE_DATA (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB)

/* ---- the check --------------------------------------------------------------------------------
 */

/* Returns the larger of `size` and the end of a part; UINT64_MAX if the end overflows. */
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

/* Returns the problem of the file, apart from its size; NULL: none. */
static const char *module_file_head_problem(int fd, const struct stat *info, ElfW(Ehdr) * head)
{
    if (!S_ISREG(info->st_mode))
        return "is not a regular file";
    if (!info->st_size)
        return "is empty";
    if (pread(fd, head, sizeof *head, 0) != (ssize_t)sizeof *head ||
        memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return "is not an ELF file, so not a module";
    if (head->e_ident[EI_CLASS] != FILE_CLASS || head->e_ident[EI_DATA] != FILE_DATA ||
        (MACHINE != EM_NONE && head->e_machine != MACHINE))
        return "was built for another machine; build it for this one";
    if (head->e_type != ET_DYN)
        return "is not a shared object, so not a module";
    if (head->e_phentsize != sizeof(ElfW(Phdr)) || !head->e_phnum ||
        head->e_phnum > PROGRAM_HEADERS_MAX)
        return "is damaged: its program headers make no sense";
    return NULL;
}

int module_file_check(const char *path, char *why, size_t why_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat info;
    ElfW(Ehdr) head;

    if (fd < 0 || fstat(fd, &info)) {
        snprintf(why, why_size, "cannot be read: %s%s", strerror(errno),
                 errno == ENOENT ? "; is it installed, is `module_path` right?" : "");
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

/* ---- the private copy -------------------------------------------------------------------------
 */

int module_file_copy(const char *path, char copy[MODULE_COPY_PATH])
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

/* ---- the identity -----------------------------------------------------------------------------
 */

struct build {
    struct build *next;
    void *dl;
    struct module_file file;
};

static struct build *builds; /* one list per process, never freed */

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

struct module_file module_file_look(const char *path)
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
    bool met = false; /* the inode stays the same as long as the file is mapped */

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

void module_file_note(const struct module_file *file, const char *path, void *dl)
{
    struct stat info;
    struct build *build = NULL;

    if (file->readable && !stat(path, &info) && info.st_dev == file->device &&
        info.st_ino == file->inode)
        build = calloc(1, sizeof *build);
    if (!build)
        return; /* just replaced, or out of memory: the same content may be loaded twice */
    *build = (struct build){builds, dl, *file};
    builds = build;
}
