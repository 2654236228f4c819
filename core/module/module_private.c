/*
 * Creates a private copy of a module's file for the dynamic linker. Writing into the file (as cp
 * does) would change the code of running threads, and truncating it would remove the code. The copy
 * is in memory and sealed. Its descriptor stays open as long as its code, which means forever: the
 * linker identifies the code by the descriptor's number, and debuggers find it there.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/module/module_load.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* since Linux 6.3; before, every such file may be executed */
#endif

/* Named like the file, so that /proc/PID/maps shows the name. */
static int make(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char known[128];

    snprintf(known, sizeof known, "%s", name);
    int fd = memfd_create(known, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);

    return fd >= 0 ? fd : memfd_create(known, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

static int fill(int to, const char *path)
{
    int from = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t went = from < 0 ? -1 : 1;

    while (went > 0)
        went = sendfile(to, from, NULL, 1 << 20);
    if (from >= 0)
        close(from);
    return went < 0 ? -1 : 0;
}

int module_private_copy(const char *path)
{
    int fd = make(path);

    if (fd < 0)
        return -1;
    if (!fill(fd, path) &&
        !fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return fd;
    close(fd);
    return -1;
}

/* With the process id instead of `self`, an attached debugger finds the file, too. */
void module_private_path(int fd, char path[MODULE_PRIVATE_PATH])
{
    snprintf(path, MODULE_PRIVATE_PATH, "/proc/%ld/fd/%d", (long)getpid(), fd);
}
