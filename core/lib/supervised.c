#include "core/lib/supervised.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/lib/text.h"

static int file = -1;
static struct supervised_file shared; /* this process's copy of the file */

static bool supervised_is_listening(int fd)
{
    int on = 0;
    socklen_t size = sizeof on;

    return fd >= 0 && !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &size) && on;
}

void supervised_renew_sockets(int sockets[2 * SUPERVISED_SOCKETS])
{
    for (size_t i = 0; i < 2 * SUPERVISED_SOCKETS; i++) {
        if (supervised_is_listening(sockets[i]))
            continue;
        if (sockets[i] >= 0)
            close(sockets[i]);
        sockets[i] = socket(i < SUPERVISED_SOCKETS ? AF_INET : AF_INET6,
                            SOCK_STREAM | SOCK_NONBLOCK, 0); /* inherited by server processes */
    }
}

void supervised_begin(void)
{
    const char *number = getenv(SUPERVISED_VARIABLE);

    if (!number)
        return;
    prctl(PR_SET_NAME, "busbar");     /* the kernel has named it "exe", after /proc/self/exe */
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* exec clears it if the executable has capabilities */
    file = (int)strtol(number, NULL, 10);
    unsetenv(SUPERVISED_VARIABLE);
    if (pread(file, &shared, sizeof shared, 0) != (ssize_t)sizeof shared) {
        perror("busbar: the supervisor's file cannot be read");
        file = -1;
        return;
    }
    (void)fcntl(file, F_SETFD, FD_CLOEXEC);
    for (size_t i = 0; i < 2 * SUPERVISED_SOCKETS; i++)
        if (shared.sockets[i] >= 0)
            (void)fcntl(shared.sockets[i], F_SETFD, FD_CLOEXEC);
}

bool supervised(void)
{
    return file >= 0;
}

/* Writes a member of `shared` to the file. Async-signal-safe. */
static void supervised_save(const void *member, size_t size)
{
    if (file >= 0)
        (void)!pwrite(file, member, size, (const char *)member - (const char *)&shared);
}

/*
 * The socket stays open, so that a host without free descriptors can still send keep-alive
 * messages. -1: no socket.
 */
static int notify_fd = -1;

static void sd_notify_open(void)
{
    notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* $NOTIFY_SOCKET is a path, or @ and the name of an abstract socket. */
void sd_notify(const char *text)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *name = getenv("NOTIFY_SOCKET");
    size_t length = name ? strlen(name) : 0;

    if (length < 2 || length >= sizeof address.sun_path || (*name != '/' && *name != '@'))
        return;
    memcpy(address.sun_path, name, length);
    if (*name == '@')
        address.sun_path[0] = '\0';
    pthread_once(&once, sd_notify_open);
    if (notify_fd >= 0)
        (void)sendto(notify_fd, text, strlen(text), MSG_NOSIGNAL, (struct sockaddr *)&address,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
}

void sd_notify_ready(void)
{
    if (!shared.worker.served_ms) {
        shared.worker.served_ms = clock_mono_ms();
        supervised_save(&shared.worker.served_ms, sizeof shared.worker.served_ms);
    }
    sd_notify("READY=1");
}

/* With Type=notify-reload, the service manager identifies the reload by MONOTONIC_USEC. */
void sd_notify_reloading(void)
{
    char text[64];

    snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, clock_mono_us());
    sd_notify(text);
}

void sd_notify_stopping(void)
{
    shared.worker.stopping = true;
    supervised_save(&shared.worker.stopping, sizeof shared.worker.stopping);
    sd_notify("STOPPING=1");
}

void supervised_forgive(void)
{
    history_forgive(&shared.history);
    shared.worker.forgiven = true;
    supervised_save(&shared.worker.forgiven, sizeof shared.worker.forgiven);
}

void supervised_log(bool json)
{
    shared.worker.json = json;
    supervised_save(&shared.worker.json, sizeof shared.worker.json);
}

void supervised_crashed(const struct crash_note *note)
{
    shared.worker.note = *note;
    supervised_save(&shared.worker.note, sizeof shared.worker.note);
}

size_t supervised_listening(const char *address, int fds[SUPERVISED_SOCKETS])
{
    bool same = !strcmp(shared.listening_at, address);
    size_t count = 0;

    for (size_t i = 0; supervised() && i < 2 * SUPERVISED_SOCKETS; i++) {
        if (!supervised_is_listening(shared.sockets[i]))
            continue;
        if (same && count < SUPERVISED_SOCKETS) {
            fds[count++] = shared.sockets[i];
        } else {
            shutdown(shared.sockets[i], SHUT_RDWR);
            close(shared.sockets[i]);
        }
        shared.sockets[i] = -1;
    }
    return count;
}

int supervised_socket(int family)
{
    for (size_t i = 0; supervised() && i < 2 * SUPERVISED_SOCKETS; i++) {
        int fd = shared.sockets[i];

        if (fd < 0 || (i < SUPERVISED_SOCKETS ? AF_INET : AF_INET6) != family)
            continue;
        shared.sockets[i] = -1;
        return fd;
    }
    return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

void supervised_listens(const char *address)
{
    snprintf(shared.listening_at, sizeof shared.listening_at, "%s", address);
    supervised_save(shared.listening_at, sizeof shared.listening_at);
}

const struct crash_history *supervised_history(void)
{
    return &shared.history;
}

/* ---- the crash history ---- */

void history_add(struct crash_history *history, const struct crash_note *note, bool served,
                 int64_t now_ms)
{
    struct crash_row *row = history->rows, *end = row + history->row_count;

    while (row < end && strcmp(row->module, note->module) != 0)
        row++;
    if (row == end && history->row_count < HISTORY_ROWS) {
        history->row_count++;
        *row = (struct crash_row){.count = 0};
        memcpy(row->module, note->module, sizeof row->module);
    } else if (row == end) {
        row = NULL;
    }
    history->restarts++;
    history->last = *note;
    for (size_t i = 0; served && i < history->row_count; i++)
        history->rows[i].in_vain = 0; /* the start of the worker has succeeded */
    if (!row)
        return;
    row->count++;
    row->in_vain += !served;
    memcpy(row->file, note->file, sizeof row->file);
    memmove(row->at_ms + 1, row->at_ms, sizeof row->at_ms - sizeof *row->at_ms);
    row->at_ms[0] = now_ms;
    int64_t third = row->at_ms[QUARANTINE_CRASHES - 1];

    if (*row->file &&
        ((third && now_ms - third <= QUARANTINE_MS) || row->in_vain >= QUARANTINE_CRASHES))
        row->out = true;
}

void history_forgive(struct crash_history *history)
{
    for (size_t i = 0; i < history->row_count; i++) {
        history->rows[i].out = false;
        history->rows[i].in_vain = 0;
        memset(history->rows[i].at_ms, 0, sizeof history->rows[i].at_ms);
    }
}

const struct crash_row *history_out(const struct crash_history *history, const char *name)
{
    for (size_t i = 0; i < history->row_count; i++) {
        const struct crash_row *row = &history->rows[i];

        if (row->out && (!strcmp(row->file, name) || !strcmp(row->module, name)))
            return row;
    }
    return NULL;
}

/* ---- protection ---- */

void guard_environment(void)
{
    size_t count = 0, bytes = 0, used = 0;

    while (environ && environ[count])
        bytes += strlen(environ[count++]) + 1;
    char **copy = count ? malloc((count + 1) * sizeof *copy + bytes) : NULL;

    if (!copy)
        return;
    char *text = (char *)(copy + count + 1);

    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(environ[i]) + 1;

        copy[i] = memcpy(text + used, environ[i], size);
        explicit_bzero(environ[i], size);
        used += size;
    }
    copy[count] = NULL;
    environ = copy;
}

void guard_process(void)
{
    static const int unused[] = {SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT};

    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        signal(unused[i], SIG_IGN);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); /* kernels without this option are accepted */
}
