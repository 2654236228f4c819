#include "modules/device/store/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { UUID = 36 };

void store_keep(void *arg)
{
    struct store_keep *keep = arg;

    keep->begun = 0;
    keep->until_ms = 0;
    keep->why[0] = '\0';
    keep->store->calls->keep(keep);
}

void store_open(void *arg)
{
    struct store_open *open = arg;

    open->fd = -1;
    open->why[0] = '\0';
    open->store->calls->open(open);
}

void store_list(void *arg)
{
    struct store_list *list = arg;

    list->count = 0;
    list->more = false;
    list->why[0] = '\0';
    list->store->calls->list(list);
}

void store_remove(void *arg)
{
    struct store_remove *remove = arg;

    remove->removed = 0;
    remove->why[0] = '\0';
    remove->store->calls->remove(remove);
}

void store_free(struct store *store)
{
    if (store)
        store->calls->free(store);
}

bool store_is_name(const char *text)
{
    size_t length = strlen(text);

    if (length < STORE_SHA256 || strspn(text, "0123456789abcdef") != STORE_SHA256)
        return false;
    return length == STORE_SHA256 || (length == STORE_NAME - 1 && text[STORE_SHA256] == '-' &&
                                      strspn(text + STORE_SHA256 + 1, "0123456789abcdef-") == UUID);
}

/* Returns 1 if the file was old and has been deleted. */
static size_t tidy_one(int directory, const char *name, time_t before)
{
    struct stat about;

    if (fstatat(directory, name, &about, AT_SYMLINK_NOFOLLOW) || !S_ISREG(about.st_mode) ||
        about.st_mtime >= before)
        return 0;
    return unlinkat(directory, name, 0) == 0;
}

void store_tidy(void *arg)
{
    struct store_tidy *tidy = arg;
    char path[PATH_MAX];
    const struct dirent *entry;

    tidy->removed = 0;
    if (snprintf(path, sizeof(path), "%s/incoming", tidy->store->directory) >= PATH_MAX)
        return;
    DIR *directory = opendir(path);

    if (!directory)
        return;
    while ((entry = readdir(directory)))
        tidy->removed += tidy_one(dirfd(directory), entry->d_name, tidy->before);
    closedir(directory);
}
