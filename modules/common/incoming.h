/* The directory `incoming/` of a module, in which requests store uploads that are in progress. */
#ifndef COMMON_INCOMING_H
#define COMMON_INCOMING_H

#include <busbar/busbar.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct incoming_sweep {
    const char *directory; /* the parent of `incoming/` */
    time_t before;
    size_t removed;
};

static inline void incoming_sweep(void *arg)
{
    struct incoming_sweep *sweep = arg;
    char path[PATH_MAX];
    const struct dirent *entry;
    struct stat about;

    if (snprintf(path, sizeof(path), "%s/incoming", sweep->directory) >= PATH_MAX)
        return;
    DIR *directory = opendir(path);

    if (!directory)
        return;
    while ((entry = readdir(directory)))
        if (!fstatat(dirfd(directory), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) &&
            S_ISREG(about.st_mode) && about.st_mtime < sweep->before)
            sweep->removed += unlinkat(dirfd(directory), entry->d_name, 0) == 0;
    closedir(directory);
}

/* Deletes files older than `before` from `incoming/`, which requests left when a host died. */
static inline void incoming_tidy(struct bb_request *rq, const char *pool, const char *directory,
                                 time_t before)
{
    struct incoming_sweep sweep = {.directory = directory, .before = before};

    if (!bb_offload(rq, pool, incoming_sweep, &sweep) && sweep.removed)
        bb_log(rq, BB_INFO, "%zu files of unfinished uploads were removed", sweep.removed);
}

#endif
