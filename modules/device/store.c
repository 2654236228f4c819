#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASIDE "aside-" /* in incoming/: what the sweep is about to delete */

enum { SHARD_DIGITS = 2, DIRECTORY_MODE = 0700 };

static int path_of(char path[PATH_MAX], const char *directory, const char *name)
{
    int length = snprintf(path, PATH_MAX, "%s/%.2s/%s", directory, name, name);

    if (length < PATH_MAX)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

static int path_aside(char path[PATH_MAX], const char *directory, const char *name)
{
    int length = snprintf(path, PATH_MAX, "%s/incoming/" ASIDE "%s", directory, name);

    if (length < PATH_MAX)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

static int sync_directory(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    int failed = fsync(fd);

    close(fd);
    return failed;
}

/* Makes the shard of a name if there is none; *shard is its path. */
static int make_shard(char shard[PATH_MAX], const char *directory, const char *name)
{
    if (snprintf(shard, PATH_MAX, "%s/%.2s", directory, name) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (!mkdir(shard, DIRECTORY_MODE))
        return sync_directory(directory);
    return errno == EEXIST ? 0 : -1;
}

static int keep_one(const struct store_keep *keep, size_t index)
{
    char path[PATH_MAX], shard[PATH_MAX];
    const char *name = keep->names[index];

    if (path_of(path, keep->directory, name) || make_shard(shard, keep->directory, name) ||
        rename(keep->paths[index], path))
        return -1;
    return sync_directory(shard);
}

void store_keep(void *arg)
{
    struct store_keep *keep = arg;

    keep->error = 0;
    for (size_t i = 0; i < keep->count && !keep->error; i++)
        if (keep_one(keep, i))
            keep->error = errno;
}

void store_open(void *arg)
{
    struct store_open *job = arg;
    char path[PATH_MAX];
    struct stat about;

    job->fd = path_of(path, job->directory, job->name) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (job->fd >= 0 && fstat(job->fd, &about)) {
        close(job->fd);
        job->fd = -1;
    }
    if (job->fd < 0) {
        job->error = errno;
        return;
    }
    job->length = about.st_size;
    (void)readahead(job->fd, 0, (size_t)about.st_size);
}

static bool is_name(const char *text)
{
    return strlen(text) == STORE_NAME - 1 && strspn(text, "0123456789abcdef") == STORE_NAME - 1;
}

static bool older(int directory, const char *name, time_t before)
{
    struct stat about;

    return !fstatat(directory, name, &about, AT_SYMLINK_NOFOLLOW) && S_ISREG(about.st_mode) &&
           about.st_mtime < before;
}

void store_list(void *arg)
{
    struct store_list *list = arg;
    char path[PATH_MAX];
    const struct dirent *entry;

    list->count = 0;
    if (snprintf(path, sizeof(path), "%s/%02x", list->directory, list->shard) >= PATH_MAX)
        return;
    DIR *directory = opendir(path);

    if (!directory)
        return;
    while (list->count < STORE_BATCH && (entry = readdir(directory)))
        if (is_name(entry->d_name) && older(dirfd(directory), entry->d_name, list->before))
            memcpy(list->names[list->count++], entry->d_name, STORE_NAME);
    closedir(directory);
}

/* 1: it is gone. */
static size_t remove_one(const struct store_list *list, const char *name)
{
    char path[PATH_MAX], aside[PATH_MAX];

    if (path_of(path, list->directory, name) || path_aside(aside, list->directory, name) ||
        rename(path, aside))
        return 0;
    if (older(AT_FDCWD, aside, list->before))
        return unlink(aside) == 0;
    (void)rename(aside, path);
    return 0;
}

void store_remove(void *arg)
{
    struct store_remove *remove = arg;
    const struct store_list *list = remove->list;

    remove->removed = 0;
    for (size_t i = 0; i < list->count; i++)
        if (!remove->keep[i])
            remove->removed += remove_one(list, list->names[i]);
}

/* A host died between moving aside and deleting: back it goes, for the next sweep to judge. */
static void put_back(const char *directory, const char *from, const char *name)
{
    char path[PATH_MAX];

    if (is_name(name) && !path_of(path, directory, name))
        (void)rename(from, path);
}

void store_tidy(void *arg)
{
    struct store_tidy *tidy = arg;
    char path[PATH_MAX], incoming[PATH_MAX];
    const struct dirent *entry;

    tidy->removed = 0;
    if (snprintf(incoming, sizeof(incoming), "%s/incoming", tidy->directory) >= PATH_MAX)
        return;
    DIR *directory = opendir(incoming);

    if (!directory)
        return;
    while ((entry = readdir(directory))) {
        const char *name = entry->d_name;

        if (snprintf(path, sizeof(path), "%s/%s", incoming, name) >= PATH_MAX)
            continue;
        if (!strncmp(name, ASIDE, sizeof(ASIDE) - 1))
            put_back(tidy->directory, path, name + sizeof(ASIDE) - 1);
        else if (older(dirfd(directory), name, tidy->before))
            tidy->removed += unlink(path) == 0;
    }
    closedir(directory);
}
