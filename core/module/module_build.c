/*
 * Identifies loaded files by their content. Code is never unloaded, so a file that is replaced by
 * an identical one (a copy, or an earlier version) uses the code that is already loaded: memory use
 * grows with the number of builds, not of reloads.
 *
 * Also reads the build id, which shows users which code runs. It does not identify a file, because
 * a file that was edited afterwards keeps its build id.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/module/module_load.h"

enum { ID_MIN = 8, PIECE = 65536 };

struct build {
    struct build *next;
    void *dl;
    struct module_file file;
};

static struct build *builds; /* one list per process, never freed */

/* ---- build ids ---------------------------------------------------------------------------------
 */

static void hexadecimal(const unsigned char *bytes, size_t length, char id[MODULE_BUILD_ID_SIZE])
{
    for (size_t i = 0; i < length; i++)
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
}

/* Finds the build id in ELF notes; "" if there is none. */
static void read_notes(const unsigned char *notes, size_t size, char id[MODULE_BUILD_ID_SIZE])
{
    ElfW(Nhdr) head;

    id[0] = '\0';
    while (size >= sizeof head) {
        memcpy(&head, notes, sizeof head);
        size_t name = (head.n_namesz + 3U) & ~3U, value = (head.n_descsz + 3U) & ~3U;

        if (name > size - sizeof head || value > size - sizeof head - name)
            return;
        const unsigned char *at = notes + sizeof head;

        if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && !memcmp(at, "GNU", 4) &&
            head.n_descsz >= ID_MIN && head.n_descsz <= (MODULE_BUILD_ID_SIZE - 1) / 2) {
            hexadecimal(at + name, head.n_descsz, id);
            return;
        }
        notes += sizeof head + name + value;
        size -= sizeof head + name + value;
    }
}

struct search {
    ElfW(Addr) base;
    char *id;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    const struct search *search = arg;

    (void)size;
    if (info->dlpi_addr != search->base)
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum && !search->id[0]; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

        if (segment->p_type == PT_NOTE)
            read_notes((const unsigned char *)(info->dlpi_addr + segment->p_vaddr), // NOLINT
                       segment->p_memsz, search->id);
    }
    return 1;
}

void module_build_id(void *dl, char id[MODULE_BUILD_ID_SIZE])
{
    struct link_map *map = NULL;
    struct search search = {.id = id};

    id[0] = '\0';
    if (dlinfo(dl, RTLD_DI_LINKMAP, &map))
        return;
    search.base = map->l_addr;
    dl_iterate_phdr(look_at, &search);
}

/* ---- files -------------------------------------------------------------------------------------
 */

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
