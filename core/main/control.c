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
#include "core/lib/supervised.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/main/control_clients.h"
#include "core/main/reload.h"

char *control_path(const struct settings *settings)
{
    const char *environment = getenv("BUSBAR_CONTROL");
    const char *path = settings ? settings_text(settings, "control", "socket") : CONTROL_SOCKET;
    char *joined;

    if (environment && *environment)
        return strdup(environment);
    if (!path || !*path)
        return NULL;
    if (*path == '/' || !settings)
        return strdup(path);
    return asprintf(&joined, "%s/%s", settings_directory(settings), path) < 0 ? NULL : joined;
}

enum {
    CLIENT_SECONDS = 2, /* for receiving a line, and for sending the answer */
    BACKLOG = 16,
    PAUSE_MS = 200 /* if descriptors run out, instead of a busy loop */
};

struct control {
    struct engine *engine;
    pthread_t thread;
    char *path;
    int listen_fd, stop_fd;
    ino_t inode;                    /* identifies the socket file, because another host may have
                                     * replaced it */
    struct control_clients clients; /* used by the thread */
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

/* ---- the socket --------------------------------------------------------------------------------
 */

static int address_of(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address->sun_path, path, strlen(path) + 1);
    return 0;
}

/* Whether a process listens there. */
static bool taken(const char *path)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool answered = fd >= 0 && !address_of(path, &address) &&
                    (!connect(fd, (struct sockaddr *)&address, sizeof address) || errno == EAGAIN);

    if (fd >= 0)
        close(fd);
    return answered;
}

static int bind_at(const char *path)
{
    struct sockaddr_un address;
    int fd = -1;

    unlink(path);
    if (!address_of(path, &address))
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    if (!bind(fd, (struct sockaddr *)&address, sizeof address) && !chmod(path, 0600) &&
        !listen(fd, BACKLOG))
        return fd;
    int reason = errno;

    close(fd);
    errno = reason;
    return -1;
}

/* Creates the directory if only the last component is missing: /run is empty after a boot. */
static void make_directory(const char *path)
{
    char *directory = strdup(path);
    char *slash = directory ? strrchr(directory, '/') : NULL;

    if (slash && slash > directory) {
        *slash = '\0';
        mkdir(directory, 0700);
    }
    free(directory);
}

static char *kept_key(const struct control *control)
{
    char *key;

    return asprintf(&key, "control:%s", control->path) < 0 ? NULL : key;
}

/*
 * Takes over the previous worker's socket if its file still exists; its backlog has waiting
 * clients.
 */
static bool take_over(struct control *control)
{
    char *key = kept_key(control);
    int fds[8];
    struct stat about;
    bool kept = key && supervised_take(key, fds) == 1;

    free(key);
    if (!kept)
        return false;
    if (stat(control->path, &about) || !S_ISSOCK(about.st_mode)) {
        close(fds[0]);
        return false;
    }
    control->listen_fd = fds[0];
    control->inode = about.st_ino;
    return true;
}

static void hand_up(const struct control *control)
{
    char *key = kept_key(control);

    if (key) {
        supervised_shut(key, "");
        supervised_keep(key, &control->listen_fd, 1);
    }
    free(key);
}

static int open_socket(struct control *control)
{
    char *own = NULL;
    struct stat about;

    if (take_over(control))
        return 0;
    if (taken(control->path)) {
        errno = EADDRINUSE;
        return -1;
    }
    make_directory(control->path);
    if (asprintf(&own, "%s.%ld", control->path, (long)getpid()) < 0)
        return -1;
    control->listen_fd = bind_at(own);
    if (control->listen_fd >= 0 && (stat(own, &about) || rename(own, control->path))) {
        int reason = errno;

        unlink(own);
        close(control->listen_fd);
        control->listen_fd = -1;
        errno = reason;
    }
    free(own);
    if (control->listen_fd < 0)
        return -1;
    control->inode = about.st_ino;
    hand_up(control);
    return 0;
}

/* ---- clients -----------------------------------------------------------------------------------
 */

static void serve_client(struct control *control, int fd, const char *line)
{
    struct timeval limit = {.tv_sec = CLIENT_SECONDS};

    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
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

static void serve_clients(struct control *control)
{
    char line[CONTROL_LINE_BYTES];
    int fd;

    while ((fd = control_clients_next(&control->clients, clock_mono_ms(), line)) >= 0)
        serve_client(control, fd, line);
}

/* Whether a waiting client could be accepted. */
static bool take_in(struct control *control)
{
    int fd = accept4(control->listen_fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd >= 0)
        control_clients_add(&control->clients, fd, clock_mono_ms() + CLIENT_SECONDS * 1000);
    return fd >= 0;
}

static void *control_main(void *arg)
{
    struct control *control = arg;
    struct pollfd fds[2 + CONTROL_CLIENTS_MAX] = {{.fd = control->listen_fd, .events = POLLIN},
                                                  {.fd = control->stop_fd, .events = POLLIN}};

    thread_name("control", NULL);
    while (!fds[1].revents) {
        int wait_ms = control_clients_watch(&control->clients, fds + 2, clock_mono_ms());

        if (poll(fds, 2 + CONTROL_CLIENTS_MAX, wait_ms) < 0 && errno != EINTR)
            break;
        serve_clients(control);
        if (fds[0].revents && !take_in(control))
            poll(&fds[1], 1, PAUSE_MS);
    }
    control_clients_close(&control->clients);
    return NULL;
}

/*
 * ---- start and end ------------------------------------------------------------------------------
 */

static void leave(struct control *control)
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
    control_clients_init(&control->clients);
    if (!open_socket(control)) {
        control->stop_fd = eventfd(0, EFD_CLOEXEC);
        if (control->stop_fd >= 0 && !pthread_create(&control->thread, NULL, control_main, control))
            return control;
    }
    log_line(BB_WARN,
             "no control socket: `busbar reload` and `busbar status` will not reach this "
             "host",
             "path", path, "reason",
             errno == EADDRINUSE ? "another host answers there" : strerror(errno), NULL);
    leave(control);
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
    leave(control);
}
