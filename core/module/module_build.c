/*
 * Identifies loaded files by their content. Code is never unloaded, so a file that is replaced by
 * an identical one (a copy, or an earlier version) uses the code that is already loaded: memory use
 * grows with the number of builds, not of reloads.
 * A build id does not identify a file, because a file that was edited afterwards keeps it.
 */
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/module/module_load.h"

enum { PIECE = 65536 };

struct build {
    struct build *next;
    void *dl;
    struct module_file file;
};

static struct build *builds; /* one list per process, never freed */

static int digest_open_file(int fd, EVP_MD_CTX *context, unsigned char *piece,
                            unsigned char digest[MODULE_DIGEST_SIZE])
{
    ssize_t got;

    if (!EVP_DigestInit_ex(context, EVP_sha256(), NULL))
        return -1;
    while ((got = read(fd, piece, PIECE)) > 0)
        if (!EVP_DigestUpdate(context, piece, (size_t)got))
            return -1;
    return !got && EVP_DigestFinal_ex(context, digest, NULL) ? 0 : -1;
}

int module_build_look(const char *path, struct module_file *file)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned char *piece = malloc(PIECE);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat about;
    int failed = -1;

    if (context && piece && fd >= 0 && !fstat(fd, &about)) {
        file->device = about.st_dev;
        file->inode = about.st_ino;
        failed = digest_open_file(fd, context, piece, file->digest);
    }
    if (fd >= 0)
        close(fd);
    free(piece);
    EVP_MD_CTX_free(context);
    return failed;
}

void *module_build_find(const struct module_file *file)
{
    for (const struct build *build = builds; build; build = build->next)
        if (!memcmp(build->file.digest, file->digest, sizeof file->digest))
            return build->dl;
    return NULL;
}

bool module_build_overwritten(const struct module_file *file)
{
    for (const struct build *build = builds; build; build = build->next)
        if (build->file.device == file->device && build->file.inode == file->inode)
            return memcmp(build->file.digest, file->digest, sizeof file->digest) != 0;
    return false;
}

void module_build_note(const char *path, const struct module_file *file, void *dl)
{
    struct stat about;
    struct build *build = NULL;

    if (!stat(path, &about) && about.st_dev == file->device && about.st_ino == file->inode)
        build = calloc(1, sizeof *build);
    if (!build)
        return; /* just replaced, or out of memory: it may be loaded again later */
    build->file = *file;
    build->dl = dl;
    build->next = builds;
    builds = build;
}
