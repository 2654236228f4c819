/* Reads the files; assets_response.c sends them. */
#include "modules/common/assets_list.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "modules/common/hash.h"

enum { ASSET_MAX = 16 * 1024 * 1024, ASSETS_MAX = 4096 };

static bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name), own = strlen(end);

    return length > own && !strcmp(name + length - own, end);
}

static int read_all(int fd, struct asset_bytes *bytes)
{
    size_t done = 0;

    while (done < bytes->length) {
        ssize_t got = read(fd, bytes->data + done, bytes->length - done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        done += (size_t)got;
    }
    return 0;
}

/* Returns 0; 1 if the file does not exist; -1 if it cannot be read. */
static int read_file(int directory, const char *name, struct asset_bytes *bytes)
{
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat found;

    if (fd < 0)
        return errno == ENOENT ? 1 : -1;
    int failed = fstat(fd, &found) || !S_ISREG(found.st_mode) || found.st_size > ASSET_MAX;

    if (!failed) {
        bytes->length = (size_t)found.st_size;
        bytes->data = malloc(bytes->length + 1);
        failed = !bytes->data || read_all(fd, bytes);
    }
    close(fd);
    return failed ? -1 : 0;
}

/* Different content has a different tag. */
static void make_tag(struct asset *asset)
{
    const struct asset_bytes *plain = &asset->forms[ASSET_PLAIN];

    snprintf(asset->tag, sizeof(asset->tag), "%016" PRIx64,
             hash_bytes(HASH_SEED, plain->data, plain->length));
}

static int read_forms(int directory, const char *name, struct asset *asset)
{
    static const char *const ends[ASSET_FORMS] = {"", ".gz", ".br"};
    char path[NAME_MAX + 8];

    for (int form = 0; form < ASSET_FORMS; form++) {
        snprintf(path, sizeof(path), "%s%s", name, ends[form]);
        int failed = read_file(directory, path, &asset->forms[form]);

        if (failed < 0 || (failed && form == ASSET_PLAIN))
            return -1;
    }
    make_tag(asset);
    return 0;
}

static int add(struct assets *assets, int directory, const char *name, bool hashed)
{
    struct asset *asset = calloc(1, sizeof(*asset));

    if (!asset)
        return -1;
    asset->next = assets->first;
    assets->first = asset;
    asset->hashed = hashed;
    asset->name = strdup(name);
    if (++assets->count > ASSETS_MAX || !asset->name)
        return -1;
    return read_forms(directory, name, asset);
}

/* Takes ownership of the descriptor. */
static int add_all(struct assets *assets, int directory, bool hashed)
{
    DIR *list = directory < 0 ? NULL : fdopendir(directory);
    struct dirent *entry;
    int failed = 0;

    if (!list) {
        if (directory >= 0)
            close(directory);
        return -1;
    }
    while (!failed && (errno = 0, entry = readdir(list)) != NULL)
        if (entry->d_type == DT_REG && !ends_in(entry->d_name, ".br") &&
            !ends_in(entry->d_name, ".gz"))
            failed = add(assets, dirfd(list), entry->d_name, hashed);
    failed |= errno;
    closedir(list);
    return failed ? -1 : 0;
}

struct assets *assets_read(const char *directory, bool *missing, char *why, size_t size)
{
    struct assets *assets = calloc(1, sizeof(*assets));
    int top = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    *missing = top < 0 && errno == ENOENT;
    int inner = top < 0 ? -1 : openat(top, "assets", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (assets && top >= 0 && inner >= 0) {
        int failed = add_all(assets, inner, true);

        if (!add_all(assets, top, false) && !failed)
            return assets;
        snprintf(why, size, "%s cannot be read", directory);
    } else {
        snprintf(why, size, "%s: %s", directory, strerror(errno));
        if (top >= 0)
            close(top);
        if (inner >= 0)
            close(inner);
    }
    assets_free(assets);
    return NULL;
}

void assets_free(struct assets *assets)
{
    struct asset *asset = assets ? assets->first : NULL;

    while (asset) {
        struct asset *next = asset->next;

        for (int form = 0; form < ASSET_FORMS; form++)
            free(asset->forms[form].data);
        free(asset->name);
        free(asset);
        asset = next;
    }
    free(assets);
}
