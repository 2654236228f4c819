/*
 * Checks a module's file before the dynamic linker maps it. This is all that the host reads of the
 * ELF format, and is needed in the serving process: a reload that meets a truncated file would end
 * it with SIGBUS in the linker. The linker's messages about files of other kinds are unclear.
 */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/module/module_load.h"

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

static int refuse(char *why, size_t why_size, const char *reason)
{
    snprintf(why, why_size, "%s", reason);
    return -1;
}

static int check_head(const ElfW(Ehdr) * head, char *why, size_t why_size)
{
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
        return refuse(why, why_size, "is no ELF file, so no module");
    if (head->e_ident[EI_CLASS] != FILE_CLASS || head->e_ident[EI_DATA] != FILE_DATA ||
        (MACHINE != EM_NONE && head->e_machine != MACHINE))
        return refuse(why, why_size, "was built for another machine; build it for this one");
    if (head->e_type != ET_DYN)
        return refuse(why, why_size, "is no shared object, so no module");
    if (head->e_phentsize != sizeof(ElfW(Phdr)) || !head->e_phnum ||
        head->e_phnum > PROGRAM_HEADERS_MAX)
        return refuse(why, why_size, "is damaged: its program headers make no sense");
    return 0;
}

static int truncated(char *why, size_t why_size, uint64_t size, uint64_t wanted)
{
    snprintf(why, why_size, "is truncated: it has %llu bytes and should have at least %llu",
             (unsigned long long)size, (unsigned long long)wanted);
    return -1;
}

/* Whether `length` bytes at `offset` are in the file; without integer overflow. */
static bool inside(uint64_t offset, uint64_t length, uint64_t size)
{
    return offset <= size && length <= size - offset;
}

static int check_extent(int fd, const ElfW(Ehdr) * head, uint64_t size, char *why, size_t why_size)
{
    ElfW(Phdr) segments[PROGRAM_HEADERS_MAX];
    size_t length = head->e_phnum * sizeof segments[0];
    uint64_t sections = (uint64_t)head->e_shnum * head->e_shentsize;

    if (!inside(head->e_phoff, length, size))
        return truncated(why, why_size, size, head->e_phoff + length);
    if (pread(fd, segments, length, (off_t)head->e_phoff) != (ssize_t)length)
        return refuse(why, why_size, "cannot be read");
    for (size_t i = 0; i < head->e_phnum; i++)
        if (segments[i].p_type != PT_NULL &&
            !inside(segments[i].p_offset, segments[i].p_filesz, size))
            return truncated(why, why_size, size, segments[i].p_offset + segments[i].p_filesz);
    if (head->e_shoff && !inside(head->e_shoff, sections, size))
        return truncated(why, why_size, size, head->e_shoff + sections);
    return 0;
}

static int check_open_file(int fd, char *why, size_t why_size)
{
    struct stat info;
    ElfW(Ehdr) head;

    if (fstat(fd, &info)) {
        snprintf(why, why_size, "cannot be read: %s", strerror(errno));
        return -1;
    }
    if (!S_ISREG(info.st_mode))
        return refuse(why, why_size, "is no regular file");
    if (!info.st_size)
        return refuse(why, why_size, "is empty");
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return refuse(why, why_size, "is no ELF file, so no module");
    if (check_head(&head, why, why_size))
        return -1;
    return check_extent(fd, &head, (uint64_t)info.st_size, why, why_size);
}

int module_file_check(const char *path, char *why, size_t why_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0) {
        const char *hint = errno == ENOENT ? "; is it installed, is `module_path` right?" : "";

        snprintf(why, why_size, "cannot be read: %s%s", strerror(errno), hint);
        return -1;
    }
    int failed = check_open_file(fd, why, why_size);

    close(fd);
    return failed;
}
