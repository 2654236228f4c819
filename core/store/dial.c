#include "core/store/dial.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/lib/thread.h"

enum {
    THREADS_MAX = 256, /* of the process: a silent name server blocks each for several seconds */
    ATTEMPTS_MAX = 2
};

struct dial_attempt {
    struct dial *dial;
    bool again;
};

struct dial {
    const struct dial_kind *kind;
    void *to;
    int fd; /* an eventfd */
    struct dial_attempt attempts[ATTEMPTS_MAX];
    pthread_mutex_t lock; /* protects the members below */
    unsigned holders;     /* the owner and the threads */
    unsigned running;     /* threads that have no result yet */
    bool over;            /* there is a result, or the owner has given up */
    void *connection;     /* NULL: `problem` */
    char problem[DIAL_PROBLEM];
};

static atomic_uint dial_threads;

static void dial_release(struct dial *dial)
{
    pthread_mutex_lock(&dial->lock);
    bool last = !--dial->holders;

    pthread_mutex_unlock(&dial->lock);
    if (!last)
        return;
    if (dial->fd >= 0)
        close(dial->fd);
    pthread_mutex_destroy(&dial->lock);
    free(dial->to);
    free(dial);
}

static void *dial_main(void *arg)
{
    const struct dial_attempt *attempt = arg;
    struct dial *dial = attempt->dial;
    char problem[DIAL_PROBLEM] = "";

    thread_name("connector", NULL);
    void *connection = dial->kind->connect(dial->to, attempt->again, problem);

    pthread_mutex_lock(&dial->lock);
    dial->running--;
    bool counts = !dial->over && (connection || !dial->running);

    if (counts) {
        dial->over = true;
        dial->connection = connection;
        snprintf(dial->problem, sizeof dial->problem, "%s", problem);
        eventfd_write(dial->fd, 1);
    }
    pthread_mutex_unlock(&dial->lock);
    if (connection && !counts)
        dial->kind->close(connection);
    dial_release(dial);
    atomic_fetch_sub(&dial_threads, 1);
    return NULL;
}

static int dial_start(struct dial *dial, bool again)
{
    struct dial_attempt *attempt = &dial->attempts[again];
    pthread_t thread;

    if (atomic_fetch_add(&dial_threads, 1) >= THREADS_MAX) {
        atomic_fetch_sub(&dial_threads, 1);
        return -1;
    }
    *attempt = (struct dial_attempt){dial, again};
    pthread_mutex_lock(&dial->lock);
    int failed = dial->over ? -1 : pthread_create(&thread, NULL, dial_main, attempt);

    if (!failed) {
        pthread_detach(thread);
        dial->holders++;
        dial->running++;
    }
    pthread_mutex_unlock(&dial->lock);
    if (failed)
        atomic_fetch_sub(&dial_threads, 1);
    return failed ? -1 : 0;
}

struct dial *dial_new(const struct dial_kind *kind, void *to)
{
    struct dial *dial = calloc(1, sizeof *dial);

    if (!dial) {
        free(to);
        return NULL;
    }
    pthread_mutex_init(&dial->lock, NULL);
    dial->kind = kind;
    dial->to = to;
    dial->holders = 1;
    dial->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (dial->fd >= 0 && !dial_start(dial, false))
        return dial;
    dial_release(dial);
    return NULL;
}

int dial_fd(const struct dial *dial)
{
    return dial->fd;
}

void dial_again(struct dial *dial)
{
    (void)dial_start(dial, true);
}

void *dial_end(struct dial *dial, char problem[DIAL_PROBLEM])
{
    pthread_mutex_lock(&dial->lock);
    void *connection = dial->connection;

    dial->connection = NULL;
    dial->over = true;
    snprintf(problem, DIAL_PROBLEM, "%s", dial->problem);
    pthread_mutex_unlock(&dial->lock);
    dial_release(dial);
    return connection;
}

void dial_free(struct dial *dial)
{
    char problem[DIAL_PROBLEM];
    const struct dial_kind *kind = dial ? dial->kind : NULL;
    void *connection = dial ? dial_end(dial, problem) : NULL;

    if (connection)
        kind->close(connection);
}
