#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault/torture.h"
#include "harness.h"

struct rack rack_make(const char *name)
{
    const char *path = harness_path(text("%s.torture", name));
    const char **environment = kept(calloc(3, sizeof *environment));
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(ftruncate(fd, sizeof(struct torture)), 0);
    void *map = mmap(NULL, sizeof(struct torture), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    ck_assert(map != MAP_FAILED);
    close(fd);
    environment[0] = text(TORTURE_FILE "=%s", path);
    environment[1] = "LD_PRELOAD=" TEST_TORTURE;
    return (struct rack){map, environment};
}
