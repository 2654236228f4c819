#include "modules/device/value/type.h"

#include <fcntl.h>
#include <magic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* libmagic gets only the beginning of a file, and never runs a program to decompress it. */
enum { SEEN = 64 * 1024, FLAGS = MAGIC_MIME_TYPE | MAGIC_NO_CHECK_COMPRESS };

struct type_finder {
    pthread_mutex_t lock;
    magic_t cookie;
    char seen[SEEN];
};

struct type_finder *type_finder_new(char *why, size_t size)
{
    struct type_finder *finder = calloc(1, sizeof(*finder));

    if (finder)
        finder->cookie = magic_open(FLAGS);
    if (!finder || !finder->cookie || magic_load(finder->cookie, NULL)) {
        const char *reason = finder && finder->cookie ? magic_error(finder->cookie) : NULL;

        snprintf(why, size, "%s", reason ? reason : "out of memory");
        if (finder && finder->cookie)
            magic_close(finder->cookie);
        free(finder);
        return NULL;
    }
    pthread_mutex_init(&finder->lock, NULL);
    return finder;
}

void type_finder_free(struct type_finder *finder)
{
    if (!finder)
        return;
    magic_close(finder->cookie);
    pthread_mutex_destroy(&finder->lock);
    free(finder);
}

void type_find(struct type_finder *finder, const char *path, char *type, size_t size)
{
    const char *found = NULL;

    pthread_mutex_lock(&finder->lock);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, finder->seen, sizeof(finder->seen));

    if (fd >= 0)
        close(fd);
    if (length >= 0)
        found = magic_buffer(finder->cookie, finder->seen, (size_t)length);
    snprintf(type, size, "%s", found ? found : "application/octet-stream");
    pthread_mutex_unlock(&finder->lock);
}
