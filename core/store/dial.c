#include "core/store/dial.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include <busbar/abi.h>

#include "core/lib/thread.h"

enum { THREADS_MAX = 8, ATTEMPTS_MAX = 2, LINES = 3 };

struct dial_attempt {
    STAILQ_ENTRY(dial_attempt) next;
    struct dial *dial;
};

struct dial {
    struct watch watch; /* watches `fd`; first, because dial_ready() casts it to struct dial */
    struct timer timer; /* starts the second attempt */
    struct loop *loop;
    const struct dial_kind *kind;
    void *to;
    dial_done *done;
    void *owner; /* NULL: the result is not wanted; dial_lock protects the members from here on */
    struct dial_attempt attempts[ATTEMPTS_MAX];
    unsigned left;              /* attempts that have no result yet */
    int fd;                     /* an eventfd, readable when there is a result */
    void *connection;           /* NULL until an attempt succeeds */
    char problem[DIAL_PROBLEM]; /* why the last attempt failed */
};

/*
 * Attempts that wait for a thread, and the number of threads. All loops share the three queues: for
 * first attempts, for second attempts, and for attempts of kinds with `apart`.
 */
static struct dial_line {
    STAILQ_HEAD(, dial_attempt) attempts;
    unsigned threads;
} dial_lines[LINES] = {{STAILQ_HEAD_INITIALIZER(dial_lines[0].attempts), 0},
                       {STAILQ_HEAD_INITIALIZER(dial_lines[1].attempts), 0},
                       {STAILQ_HEAD_INITIALIZER(dial_lines[2].attempts), 0}};
static pthread_mutex_t dial_lock = PTHREAD_MUTEX_INITIALIZER;

/* Unlocks, and frees the dial if neither its owner nor a thread needs it any more. */
static void dial_unlock(struct dial *dial)
{
    bool last = !dial->owner && !dial->left;

    pthread_mutex_unlock(&dial_lock);
    if (!last)
        return;
    if (dial->fd >= 0)
        close(dial->fd);
    free(dial->to);
    free(dial);
}

static void *dial_main(void *arg)
{
    struct dial_line *line = arg;
    struct dial_attempt *attempt;

    thread_name("connector", NULL);
    pthread_mutex_lock(&dial_lock);
    while ((attempt = STAILQ_FIRST(&line->attempts))) {
        struct dial *dial = attempt->dial;
        const struct dial_kind *kind = dial->kind;
        bool wanted = dial->owner && !dial->connection;
        char problem[DIAL_PROBLEM] = "";
        void *connection = NULL;

        STAILQ_REMOVE_HEAD(&line->attempts, next);
        pthread_mutex_unlock(&dial_lock);
        if (wanted)
            connection = kind->connect(dial->to, line == &dial_lines[1], problem);
        pthread_mutex_lock(&dial_lock);
        dial->left--;
        if (dial->owner && !dial->connection && (connection || !dial->left)) {
            dial->connection = connection;
            connection = NULL;
            snprintf(dial->problem, sizeof dial->problem, "%s", problem);
            eventfd_write(dial->fd, 1);
        }
        dial_unlock(dial);
        if (connection)
            kind->close(connection);
        pthread_mutex_lock(&dial_lock);
    }
    OPENSSL_thread_stop(); /* otherwise a leak check reports OpenSSL's data of the thread */
    line->threads--;
    pthread_mutex_unlock(&dial_lock);
    return NULL;
}

bool dial_busy(void)
{
    BB_LOCKED(&dial_lock);
    return dial_lines[0].threads || dial_lines[1].threads || dial_lines[2].threads;
}

/* Queues an attempt for a thread. Returns 0, or -1 if there is no thread. */
static int dial_start(struct dial *dial, bool again)
{
    struct dial_line *line = &dial_lines[dial->kind->apart ? 2 : again];
    struct dial_attempt *attempt = &dial->attempts[again];
    pthread_t thread;

    BB_LOCKED(&dial_lock);
    if (line->threads < THREADS_MAX && !pthread_create(&thread, NULL, dial_main, line)) {
        pthread_detach(thread);
        line->threads++;
    }
    if (!line->threads)
        return -1;
    attempt->dial = dial;
    STAILQ_INSERT_TAIL(&line->attempts, attempt, next);
    dial->left++;
    return 0;
}

static void dial_timer(struct timer *timer)
{
    (void)dial_start(BB_CONTAINER_OF(timer, struct dial, timer), true);
}

/* Ends the owner's wait. Returns the connection, or NULL with the reason in `problem`. */
static void *dial_leave(struct dial *dial, char problem[DIAL_PROBLEM])
{
    loop_watch(dial->loop, &dial->watch, -1, 0);
    timer_clear(&dial->loop->timers, &dial->timer);
    pthread_mutex_lock(&dial_lock);
    void *connection = dial->connection;

    snprintf(problem, DIAL_PROBLEM, "%s", dial->problem);
    dial->owner = NULL;
    dial_unlock(dial);
    return connection;
}

static void dial_ready(struct watch *watch, uint32_t events)
{
    struct dial *dial = (struct dial *)(void *)watch;
    dial_done *done = dial->done;
    void *owner = dial->owner;
    char problem[DIAL_PROBLEM];

    (void)events;
    done(owner, dial_leave(dial, problem), problem);
}

struct dial *dial_new(struct loop *loop, const struct dial_kind *kind, void *to, dial_done *done,
                      void *owner)
{
    struct dial *dial = calloc(1, sizeof *dial);
    char problem[DIAL_PROBLEM];

    if (!dial) {
        free(to);
        return NULL;
    }
    *dial = (struct dial){.watch = {.fd = -1, .ready = dial_ready},
                          .timer.fire = dial_timer,
                          .loop = loop,
                          .kind = kind,
                          .to = to,
                          .done = done,
                          .owner = owner,
                          .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (dial->fd < 0 || loop_watch(loop, &dial->watch, dial->fd, EPOLLIN) ||
        dial_start(dial, false)) {
        dial_leave(dial, problem);
        return NULL;
    }
    if (kind->again_ms)
        timer_set(&loop->timers, &dial->timer, loop->now_ms + kind->again_ms);
    return dial;
}

void dial_free(struct dial *dial)
{
    char problem[DIAL_PROBLEM];
    const struct dial_kind *kind = dial ? dial->kind : NULL;
    void *connection = dial ? dial_leave(dial, problem) : NULL;

    if (connection)
        kind->close(connection);
}
