/* The pool's part of uploads: writes batches, and deletes files that were not kept. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/lib/text.h"
#include "core/server/upload.h"

enum { FILE_MODE = 0600, DIRECTORY_MODE = 0700 };

/* Creates the directory on first use. */
static int make_directory(const struct upload *upload)
{
    char path[4096];

    if (snprintf(path, sizeof path, "%s/incoming", upload->directory) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (mkdir(upload->directory, DIRECTORY_MODE) && errno != EEXIST)
        return -1;
    return mkdir(path, DIRECTORY_MODE) && errno != EEXIST ? -1 : 0;
}

static int open_new(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
}

static int begin_file(const struct upload *upload, struct upload_file *file)
{
    file->begun = true;
    file->fd = open_new(file->pub.path);
    if (file->fd < 0 && errno == ENOENT && !make_directory(upload))
        file->fd = open_new(file->pub.path);
    if (file->fd < 0)
        return -1;
    file->digest = EVP_MD_CTX_new();
    if (file->digest && EVP_DigestInit_ex(file->digest, EVP_sha256(), NULL))
        return 0;
    errno = ENOMEM;
    return -1;
}

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length) {
        ssize_t wrote = write(fd, bytes, length);

        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return -1;
        bytes += wrote;
        length -= (size_t)wrote;
    }
    return 0;
}

static int end_file(struct upload *upload, struct upload_file *file)
{
    unsigned char digest[32];

    if (!EVP_DigestFinal_ex(file->digest, digest, NULL)) {
        errno = ENOMEM;
        return -1;
    }
    text_hex(digest, sizeof digest, file->sha256);
    file->next_written = upload->written;
    upload->written = file;
    upload->written_count++;
    return 0;
}

/* Syncing the first file makes the file system commit data of the others, too. */
static int sync_files(struct upload *upload)
{
    while (upload->written) {
        struct upload_file *file = upload->written;
        int fd = file->fd;

        if (fsync(fd))
            return -1;
        upload->written = file->next_written;
        file->fd = -1;
        if (close(fd))
            return -1;
    }
    upload->written_count = 0;
    return 0;
}

static int write_segment(struct upload *upload, const struct upload_segment *segment,
                         const char *bytes)
{
    struct upload_file *file = segment->file;

    if (!file->begun && begin_file(upload, file))
        return -1;
    if (!EVP_DigestUpdate(file->digest, bytes, segment->length)) {
        errno = ENOMEM;
        return -1;
    }
    if (write_all(file->fd, bytes, segment->length))
        return -1;
    /* start writing to disk now, so that fsync() at the end has little to wait for */
    (void)sync_file_range(file->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
    return segment->last ? end_file(upload, file) : 0;
}

void upload_write(void *arg)
{
    struct upload *upload = arg;
    const struct upload_batch *batch = upload->writing;
    const char *bytes = batch->bytes;

    for (size_t i = 0; i < batch->count && !upload->error; i++) {
        if (write_segment(upload, &batch->segments[i], bytes))
            upload->error = errno ? errno : EIO;
        bytes += batch->segments[i].length;
    }
    if (!upload->error && (upload->last || upload->written_count >= UPLOAD_OPEN_MAX) &&
        sync_files(upload))
        upload->error = errno ? errno : EIO;
}

void upload_discard(void *arg)
{
    struct upload *upload = arg;

    for (struct upload_file *file = upload->files; file; file = file->next) {
        if (file->fd >= 0)
            close(file->fd);
        EVP_MD_CTX_free(file->digest);
        if (file->begun)
            unlink(file->pub.path);
    }
}
