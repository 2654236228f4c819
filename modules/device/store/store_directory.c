/*
 * The store as a directory: "ab/ab12…". A file gets its name only after its content is on disk, and
 * the name is on disk before the documents are added.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modules/device/record/device.h"
#include "modules/device/store/store.h"

enum { SHARDS = 256, DIRECTORY_MODE = 0700 };

static void failed(char why[STORE_WHY], const char *directory, int error)
{
    char text[96];

    snprintf(why, STORE_WHY, "%.90s: %s", directory, strerror_r(error, text, sizeof(text)));
}

static int path_of(char path[PATH_MAX], const struct store *store, const char *name)
{
    int length = snprintf(path, PATH_MAX, "%s/%.2s/%s", store->directory, name, name);

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
    int error = fsync(fd) ? errno : 0;

    close(fd);
    errno = error;
    return error ? -1 : 0;
}

static int shard_of(char shard[PATH_MAX], const struct store *store, const char *name)
{
    if (snprintf(shard, PATH_MAX, "%s/%.2s", store->directory, name) < PATH_MAX)
        return 0;
    errno = ENAMETOOLONG;
    return -1;
}

/* Creates the shard directory if it is missing, and then sets *made. */
static int keep_one(const struct store *store, const char *from, const char *name, bool *made)
{
    char path[PATH_MAX], shard[PATH_MAX];

    if (path_of(path, store, name) || shard_of(shard, store, name))
        return -1;
    if (!mkdir(shard, DIRECTORY_MODE))
        *made = true;
    else if (errno != EEXIST)
        return -1;
    return rename(from, path);
}

/*
 * Syncs after all the renames: the first sync makes the file system commit what the others need,
 * too.
 */
static void keep(struct store_keep *job)
{
    char shard[PATH_MAX];
    bool made = false;
    int status = 0;

    for (; job->begun < job->count && !status; job->begun++)
        status = keep_one(job->store, job->paths[job->begun], job->names[job->begun], &made);
    if (!status && made)
        status = sync_directory(job->store->directory);
    for (size_t i = 0; i < job->count && !status; i++)
        if (shard_of(shard, job->store, job->names[i]) || sync_directory(shard))
            status = -1;
    if (status)
        failed(job->why, job->store->directory, errno);
}

static void open_one(struct store_open *job)
{
    char path[PATH_MAX];
    struct stat about;
    int error;

    job->fd = path_of(path, job->store, job->name) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    error = job->fd < 0 || fstat(job->fd, &about) ? errno : about.st_size == job->length ? 0 : EIO;
    if (!error) {
        (void)readahead(job->fd, 0, (size_t)job->length);
        return;
    }
    failed(job->why, job->store->directory, error);
    if (job->fd >= 0)
        close(job->fd);
    job->fd = -1;
}

/* ---- listing ---- */

static bool older(int directory, const char *name, time_t before)
{
    struct stat about;

    return !fstatat(directory, name, &about, AT_SYMLINK_NOFOLLOW) && S_ISREG(about.st_mode) &&
           about.st_mtime < before;
}

/* Inserts a name into the sorted batch; if the batch is full, its last name is dropped. */
static void sort_in(struct store_list *list, size_t first, const char *name)
{
    size_t low = first, high = list->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(list->names[middle], name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (list->count < STORE_BATCH)
        list->count++;
    if (low == list->count)
        return;
    memmove(list->names[low + 1], list->names[low], (list->count - low - 1) * STORE_NAME);
    memcpy(list->names[low], name, strlen(name) + 1);
}

static void list_shard(struct store_list *list, unsigned shard)
{
    char path[PATH_MAX];
    const struct dirent *entry;
    size_t first = list->count;

    if (snprintf(path, sizeof(path), "%s/%02x", list->store->directory, shard) >= PATH_MAX)
        return;
    DIR *directory = opendir(path);

    if (!directory)
        return;
    while ((entry = readdir(directory)))
        if (store_is_name(entry->d_name) && strcmp(entry->d_name, list->after) > 0 &&
            older(dirfd(directory), entry->d_name, list->before))
            sort_in(list, first, entry->d_name);
    closedir(directory);
}

static void list(struct store_list *job)
{
    char digits[3] = {job->after[0], job->after[0] ? job->after[1] : '\0', '\0'};

    for (unsigned shard = (unsigned)strtoul(digits, NULL, 16);
         shard < SHARDS && job->count < STORE_BATCH; shard++)
        list_shard(job, shard);
    job->more = job->count == STORE_BATCH;
    if (job->count)
        snprintf(job->after, sizeof(job->after), "%s", job->names[job->count - 1]);
}

static void remove_all(struct store_remove *job)
{
    char path[PATH_MAX];

    for (; job->removed < job->count; job->removed++) {
        const char *name = job->names[job->removed];

        if (path_of(path, job->store, name) || (unlink(path) && errno != ENOENT)) {
            failed(job->why, job->store->directory, errno);
            return;
        }
    }
}

static void free_directory(struct store *store)
{
    free(store);
}

struct store *store_directory_new(const char *directory)
{
    static const struct store_calls calls = {keep, open_one, list, remove_all, free_directory};
    struct store *store = calloc(1, sizeof(*store));

    if (store)
        *store = (struct store){&calls, directory, DEVICE_POOL};
    return store;
}
