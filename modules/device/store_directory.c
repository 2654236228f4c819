/*
 * The store as a directory: "ab/ab12…". A file gets its name only after its content is on disk, and
 * documents are added only after the name is on disk.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modules/device/device.h"
#include "modules/device/store.h"

enum { SHARDS = 256, UUID = 36 };

bool store_is_name(const char *text)
{
    size_t length = strlen(text);

    if (length < STORE_SHA256 || strspn(text, "0123456789abcdef") != STORE_SHA256)
        return false;
    return length == STORE_SHA256 || (length == STORE_NAME - 1 && text[STORE_SHA256] == '-' &&
                                      strspn(text + STORE_SHA256 + 1, "0123456789abcdef-") == UUID);
}

static void directory_failed(struct store_job *job, int error)
{
    char text[96];

    snprintf(job->why, STORE_WHY, "%.90s: %s", job->store->directory,
             strerror_r(error, text, sizeof(text)));
}

static int directory_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -1;
    int error = fsync(fd) ? errno : 0;

    close(fd);
    errno = error;
    return error ? -1 : 0;
}

/* Syncs only after all renames, because the first sync commits most data of all of them. */
static void directory_keep(void *arg)
{
    struct store_keep *keep = arg;
    const char *top = keep->job.store->directory;
    char path[STORE_PATH];
    bool made = false;
    int failed = 0;

    for (size_t i = 0; i < keep->count && !failed; i++) {
        snprintf(path, sizeof(path), "%s/%.2s", top, keep->names[i]);
        if (!mkdir(path, STORE_MODE))
            made = true;
        else if (errno != EEXIST)
            failed = -1;
        if (failed)
            break;
        snprintf(path, sizeof(path), "%s/%.2s/%s", top, keep->names[i], keep->names[i]);
        failed = rename(keep->paths[i], path);
    }
    if (!failed && made)
        failed = directory_sync(top);
    for (size_t i = 0; i < keep->count && !failed; i++) {
        snprintf(path, sizeof(path), "%s/%.2s", top, keep->names[i]);
        failed = directory_sync(path);
    }
    if (failed)
        directory_failed(&keep->job, errno);
}

static void directory_open(void *arg)
{
    struct store_open *job = arg;
    char path[STORE_PATH];
    struct stat about;

    snprintf(path, sizeof(path), "%s/%.2s/%s", job->job.store->directory, job->name, job->name);
    job->fd = open(path, O_RDONLY | O_CLOEXEC);
    int error = job->fd < 0 || fstat(job->fd, &about) ? errno
                : about.st_size == job->length        ? 0
                                                      : EIO;

    if (!error) {
        (void)readahead(job->fd, 0, (size_t)job->length);
        return;
    }
    directory_failed(&job->job, error);
    if (job->fd >= 0)
        close(job->fd);
    job->fd = -1;
}

static int is_object(const struct dirent *entry)
{
    return store_is_name(entry->d_name);
}

static int directory_by_name(const struct dirent **one, const struct dirent **other)
{
    return strcmp((*one)->d_name, (*other)->d_name);
}

static void directory_list(void *arg)
{
    struct store_list *list = arg;
    char digits[3] = {list->after[0], list->after[0] ? list->after[1] : '\0', '\0'};

    for (unsigned shard = (unsigned)strtoul(digits, NULL, 16);
         shard < SHARDS && list->count < STORE_BATCH; shard++) {
        char path[STORE_PATH];
        struct dirent **entries = NULL;
        struct stat about;

        snprintf(path, sizeof(path), "%s/%02x", list->job.store->directory, shard);
        int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int count =
            directory < 0 ? 0 : scandirat(directory, ".", &entries, is_object, directory_by_name);

        for (int i = 0; i < count; i++) {
            const char *name = entries[i]->d_name;

            if (list->count < STORE_BATCH && strcmp(name, list->after) > 0 &&
                !fstatat(directory, name, &about, AT_SYMLINK_NOFOLLOW) && S_ISREG(about.st_mode) &&
                about.st_mtime < list->before)
                strcpy(list->names[list->count++], name);
            free(entries[i]);
        }
        free(entries);
        if (directory >= 0)
            close(directory);
    }
    list->more = list->count == STORE_BATCH;
    if (list->count)
        snprintf(list->after, sizeof(list->after), "%s", list->names[list->count - 1]);
}

static void directory_remove(void *arg)
{
    struct store_remove *remove = arg;
    char path[STORE_PATH];

    for (; remove->removed < remove->count; remove->removed++) {
        const char *name = remove->names[remove->removed];

        snprintf(path, sizeof(path), "%s/%.2s/%s", remove->job.store->directory, name, name);
        if (unlink(path) && errno != ENOENT) {
            directory_failed(&remove->job, errno);
            return;
        }
    }
}

static void directory_free(struct store *store)
{
    free(store);
}

struct store *store_directory_new(const char *directory)
{
    struct store *store = calloc(1, sizeof(*store));

    if (store)
        *store = (struct store){{directory_keep, directory_open, directory_list, directory_remove},
                                directory_free,
                                directory,
                                DEVICE_POOL};
    return store;
}
