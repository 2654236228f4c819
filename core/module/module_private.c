/*
 * A private copy of a module's file, for the dynamic linker: pages of the file itself would change
 * under the threads that run them when somebody writes into it (cp does), and be gone when it is
 * cut. The copy lies in memory and is sealed; its descriptor stays open as long as its code, that
 * is for ever: the linker knows it by that number, and debuggers find it there.
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
#define MFD_EXEC 0x0010U /* of Linux 6.3; before it every such file may be executed */
#endif

/* Named like the file, which is what /proc/PID/maps shows. */
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

/* With our number in place of `self`, a debugger that attaches finds it, too. */
void module_private_path(int fd, char path[MODULE_PRIVATE_PATH])
{
    snprintf(path, MODULE_PRIVATE_PATH, "/proc/%ld/fd/%d", (long)getpid(), fd);
}
