#include "modules/bulk/command/input.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 65536, LOOK_MS = 100 };

static int fail(struct input *input, const char *why)
{
    snprintf(input->why, sizeof(input->why), "%.200s: %s", input->from, why);
    return -1;
}

/*
 * Reads available bytes. Returns 0 at the end, or -1 with errno; EINTR if the command was
 * interrupted.
 */
static ssize_t read_some(struct bb_host *host, int fd, char *bytes, size_t room)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    while (!bb_superseded(host)) {
        int found = poll(&ready, 1, LOOK_MS);

        ssize_t got = found > 0 ? read(fd, bytes, room) : found;

        if (found && (got >= 0 || (errno != EINTR && errno != EAGAIN)))
            return got;
    }
    errno = EINTR;
    return -1;
}

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length) {
        ssize_t put = write(fd, bytes, length);

        if (put < 0 && errno != EINTR)
            return -1;
        if (put > 0) {
            bytes += put;
            length -= (size_t)put;
        }
    }
    return 0;
}

static int copy(struct input *input, int from, char *piece)
{
    size_t all = 0;
    ssize_t got;

    while ((got = read_some(input->host, from, piece, PIECE)) > 0) {
        all += (size_t)got;
        if (all > input->most)
            return fail(input, "is larger than 50 MiB: send it in parts");
        if (write_all(input->fd, piece, (size_t)got))
            return fail(input, strerror(errno));
    }
    if (got < 0)
        return fail(input, bb_superseded(input->host) ? "interrupted" : strerror(errno));
    return 0;
}

/* Creates the copy in the directory for temporary files and unlinks its name at once. */
static int open_copy(struct input *input)
{
    const char *directory = getenv("TMPDIR");
    char name[PATH_MAX];

    snprintf(name, sizeof(name), "%s/busbar-XXXXXX", directory && *directory ? directory : "/tmp");
    input->fd = mkostemp(name, O_CLOEXEC);
    if (input->fd < 0)
        return fail(input, "a temporary copy cannot be made: see $TMPDIR");
    unlink(name);
    snprintf(input->path, sizeof(input->path), "/proc/self/fd/%d", input->fd);
    return 0;
}

/*
 * Returns a descriptor that the caller closes. Ctrl-C discards typed input, possibly between poll()
 * and read(), so a terminal is opened again to read it without blocking. O_NONBLOCK on the
 * inherited descriptor would also affect the shell.
 */
static int open_input(const char *path)
{
    bool standard = !strcmp(path, "-");
    int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, O_RDONLY | O_CLOEXEC);
    char name[32];

    if (fd < 0 || !isatty(fd))
        return fd;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    int own = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (own < 0)
        return fd;
    close(fd);
    return own;
}

void input_read(void *arg)
{
    struct input *input = arg;
    int from = open_input(input->from);
    char *piece = malloc(PIECE);
    struct stat found;

    input->fd = -1;
    if (from < 0)
        fail(input, strerror(errno));
    else if (!piece)
        fail(input, "out of memory");
    else if (!open_copy(input) && !copy(input, from, piece))
        input->piped = !strcmp(input->from, "-") || fstat(from, &found) || !S_ISREG(found.st_mode);
    if (from >= 0)
        close(from);
    free(piece);
}

void input_free(void *arg)
{
    struct input *input = arg;

    if (input->fd >= 0)
        close(input->fd);
    input->fd = -1;
}

void input_ask(void *arg)
{
    struct input_answer *answer = arg;
    char byte;
    bool first = true;
    int from = open_input("-");

    while (from >= 0 && read_some(answer->host, from, &byte, 1) == 1 && byte != '\n') {
        if (first)
            answer->yes = byte == 'y' || byte == 'Y';
        first = false;
    }
    if (from >= 0)
        close(from);
}
