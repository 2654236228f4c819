#include "core/main/control.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/lib/host_settings.h"
#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/reload.h"
#include "core/main/status.h"

char *control_path(const struct settings *settings)
{
    const char *environment = getenv("BUSBAR_CONTROL");
    const char *path = settings ? host_settings(settings)->control.socket : CONTROL_SOCKET;
    char *joined;

    if (environment && *environment)
        return strdup(environment);
    if (!path || !*path)
        return NULL;
    if (*path == '/' || !settings)
        return strdup(path);
    return asprintf(&joined, "%s/%s", settings->directory, path) < 0 ? NULL : joined;
}

enum {
    LINE_MS = 1000, /* for a client to send its command, because a silent client delays others */
    LINE_BYTES = 64,
    ANSWER_SECONDS = 2,
    BACKLOG = 16,
    PAUSE_MS = 200 /* if descriptors run out, instead of a busy loop */
};

struct control {
    struct engine *engine;
    pthread_t thread;
    char *path;
    int listen_fd, stop_fd;
    ino_t inode; /* of the socket file, which another host may have replaced */
};

void control_answer(int fd, const char *text)
{
    size_t left;

    if (!text)
        text = CONTROL_FAILED "out of memory\n";
    left = strlen(text);
    while (left) {
        ssize_t sent = send(fd, text, left, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            break; /* the client has closed the connection, or does not read */
        text += sent;
        left -= (size_t)sent;
    }
    close(fd);
}

/* ---- the socket ---- */

static int control_address_of(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address->sun_path, path, strlen(path) + 1);
    return 0;
}

static int control_connect_to(const char *path, int flags)
{
    struct sockaddr_un address;
    int fd = control_address_of(path, &address)
                 ? -1
                 : socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

    if (fd < 0 || !connect(fd, (struct sockaddr *)&address, sizeof address))
        return fd;
    int reason = errno;

    close(fd);
    errno = reason;
    return -1;
}

int control_connect(const char *path)
{
    return control_connect_to(path, 0);
}

/* Returns whether a process listens on the socket. */
static bool control_is_taken(const char *path)
{
    int fd = control_connect_to(path, SOCK_NONBLOCK);

    if (fd < 0)
        return errno == EAGAIN;
    close(fd);
    return true;
}

/* Creates the socket. The host's umask (077) gives it the mode 0600 from the beginning. */
static int control_listen(struct control *control)
{
    struct sockaddr_un address;
    struct stat about;

    if (control_is_taken(control->path)) {
        errno = EADDRINUSE;
        return -1;
    }
    /* Creates the directory if only the last component is missing: /run is empty after a boot. */
    char *directory = strdup(control->path);
    char *slash = directory ? strrchr(directory, '/') : NULL;

    if (slash && slash > directory) {
        *slash = '\0';
        mkdir(directory, 0700);
    }
    free(directory);
    unlink(control->path);
    if (control_address_of(control->path, &address))
        return -1;
    control->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (control->listen_fd < 0 ||
        bind(control->listen_fd, (struct sockaddr *)&address, sizeof address) ||
        stat(control->path, &about))
        return -1;
    control->inode = about.st_ino;
    return chmod(control->path, 0600) || listen(control->listen_fd, BACKLOG) ? -1 : 0;
}

/* ---- clients ---- */

/* Reads a client's command. */
static void control_read_line(int fd, char line[LINE_BYTES])
{
    int64_t until = clock_mono_ms() + LINE_MS, left;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    size_t length = 0;
    ssize_t got = 1;

    while (got > 0 && length + 1 < LINE_BYTES && !memchr(line, '\n', length) &&
           (left = until - clock_mono_ms()) > 0 && poll(&one, 1, (int)left) > 0) {
        got = recv(fd, line + length, LINE_BYTES - 1 - length, MSG_DONTWAIT);
        length += got > 0 ? (size_t)got : 0;
    }
    line[length] = '\0';
    line[strcspn(line, "\n")] = '\0';
}

static void control_serve_client(struct control *control, int fd)
{
    struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    char line[LINE_BYTES];

    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    control_read_line(fd, line);
    if (!strcmp(line, "reload")) {
        reloader_ask(control->engine->reloader, fd);
    } else if (!strcmp(line, "status") || !strcmp(line, "status --json")) {
        char *text = status_text(control->engine, line[6] != '\0');

        control_answer(fd, text);
        free(text);
    } else {
        control_answer(fd, CONTROL_FAILED "unknown command: this host accepts reload and status\n");
    }
}

static void *control_main(void *arg)
{
    struct control *control = arg;
    struct pollfd fds[] = {{.fd = control->listen_fd, .events = POLLIN},
                           {.fd = control->stop_fd, .events = POLLIN}};

    thread_name("control", NULL);
    while (!fds[1].revents) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (!fds[0].revents || fds[1].revents)
            continue;
        int fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0)
            control_serve_client(control, fd);
        else
            poll(&fds[1], 1, PAUSE_MS);
    }
    return NULL;
}

/* ---- start and end ---- */

static void control_leave(struct control *control)
{
    struct stat about;

    if (control->listen_fd >= 0) {
        close(control->listen_fd);
        if (!stat(control->path, &about) && about.st_ino == control->inode)
            unlink(control->path);
    }
    if (control->stop_fd >= 0)
        close(control->stop_fd);
    free(control->path);
    free(control);
}

struct control *control_new(struct engine *engine)
{
    struct generation *g = engine_generation(engine);
    char *path = control_path(g->settings);
    struct control *control = path ? calloc(1, sizeof *control) : NULL;

    generation_release(g);
    if (!control) {
        free(path);
        return NULL;
    }
    *control = (struct control){.engine = engine, .path = path, .listen_fd = -1, .stop_fd = -1};
    if (!control_listen(control)) {
        control->stop_fd = eventfd(0, EFD_CLOEXEC);
        if (control->stop_fd >= 0 && !pthread_create(&control->thread, NULL, control_main, control))
            return control;
    }
    log_line(BB_WARN,
             "no control socket: `busbar reload` and `busbar status` will not reach this "
             "host",
             "path", path, "reason",
             errno == EADDRINUSE ? "another host uses this path" : strerror(errno), NULL);
    control_leave(control);
    return NULL;
}

void control_free(struct control *control)
{
    uint64_t one = 1;

    if (!control)
        return;
    while (write(control->stop_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_join(control->thread, NULL);
    control_leave(control);
}
