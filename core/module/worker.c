#include "core/module/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"

enum { LEAVE_MS = 8000 }; /* default time for a worker to return */

struct worker {
    struct bb_worker_context context; /* first member */
    const struct bb_worker *descriptor;
    struct workers *all;
    pthread_t thread;
};

struct workers {
    struct worker *list;
    size_t count; /* threads */
    pthread_mutex_t lock;
    pthread_cond_t gone; /* signals that `go` or `stop` has changed */
    bool go;
    atomic_bool stop;
    atomic_int_least64_t until_ms; /* deadline for returning, once stopped */
    atomic_size_t ended;
};

static void worker_ring(int fd)
{
    uint64_t one = 1;

    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

bool api_stopping(struct bb_worker_context *context)
{
    return atomic_load(&((struct worker *)(void *)context)->all->stop);
}

int64_t api_leave_ms(struct bb_worker_context *context)
{
    const struct workers *workers = ((struct worker *)(void *)context)->all;

    return atomic_load(&workers->stop) ? atomic_load(&workers->until_ms) - clock_mono_ms()
                                       : LEAVE_MS;
}

/* A generation has references from its requests, its workers and, while it is live, the engine. */
bool api_drained(struct bb_worker_context *context)
{
    const struct worker *worker = (struct worker *)(void *)context;
    const struct generation *generation = handle_of(context->host)->generation;
    size_t holders = atomic_load(&generation->holders); /* read first, because a worker may end */

    return holders <= workers_running(worker->all) + !generation_superseded(generation);
}

void api_wake(struct bb_host *host, const char *name)
{
    struct workers *workers = handle_of(host)->generation->workers;

    for (size_t i = 0; workers && i < workers->count; i++) {
        if (workers->list[i].context.host == host &&
            !strcmp(workers->list[i].descriptor->name, name))
            worker_ring(workers->list[i].context.wake_fd);
    }
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct generation *generation = handle_of(worker->context.host)->generation;

    thread_name(worker->context.host->module->name, worker->descriptor->name);
    thread_schedule(worker->descriptor->nice);
    activity_enter((struct activity){.module = worker->context.host->module->name,
                                     .kind = "worker",
                                     .name = worker->descriptor->name});
    /* until the generation is live, or never will be */
    struct workers *workers = worker->all;

    pthread_mutex_lock(&workers->lock);
    while (!workers->go && !atomic_load(&workers->stop))
        pthread_cond_wait(&workers->gone, &workers->lock);
    bool go = workers->go;

    pthread_mutex_unlock(&workers->lock);
    if (go)
        worker->descriptor->run(&worker->context);
    atomic_fetch_add(&workers->ended, 1);
    generation_release(generation);
    return NULL;
}

static int worker_start(struct workers *workers, const struct bb_worker *descriptor,
                        struct bb_host *host)
{
    struct worker *worker = &workers->list[workers->count];
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    if (fd < 0)
        return -1;
    worker->context =
        (struct bb_worker_context){.size = sizeof worker->context, .host = host, .wake_fd = fd};
    worker->descriptor = descriptor;
    worker->all = workers;
    generation_acquire(handle_of(host)->generation); /* the thread's reference */
    if (pthread_create(&worker->thread, NULL, worker_main, worker)) {
        generation_release(handle_of(host)->generation);
        close(fd);
        return -1;
    }
    workers->count++;
    return 0;
}

struct workers *workers_new(struct generation *generation)
{
    struct workers *workers = calloc(1, sizeof *workers);
    size_t count = 1;

    if (!workers)
        return NULL;
    pthread_mutex_init(&workers->lock, NULL);
    pthread_cond_init(&workers->gone, NULL);
    for (size_t i = 0; i < generation->module_count; i++)
        count += generation->modules[i].descriptor->workers.count;
    workers->list = calloc(count, sizeof *workers->list);
    bool failed = !workers->list;

    for (size_t i = 0; i < generation->module_count; i++) {
        struct core_module *module = &generation->modules[i];

        MODULE_EACH (bb_worker, row, module->descriptor->workers)
            failed = failed || worker_start(workers, row, &module->handle.host);
    }
    if (!failed)
        return workers;
    log_line(BB_ERROR, "cannot start the workers of modules", NULL);
    workers_free(workers);
    return NULL;
}

void workers_go(struct workers *workers)
{
    pthread_mutex_lock(&workers->lock);
    workers->go = true;
    pthread_cond_broadcast(&workers->gone);
    pthread_mutex_unlock(&workers->lock);
}

void workers_stop(struct workers *workers, int64_t until_ms)
{
    pthread_mutex_lock(&workers->lock);
    if (!atomic_load(&workers->stop) || atomic_load(&workers->until_ms) > until_ms)
        atomic_store(&workers->until_ms, until_ms);
    atomic_store(&workers->stop, true);
    pthread_cond_broadcast(&workers->gone);
    pthread_mutex_unlock(&workers->lock);
    for (size_t i = 0; i < workers->count; i++)
        worker_ring(workers->list[i].context.wake_fd);
}

size_t workers_running(const struct workers *workers)
{
    return workers->count - atomic_load(&workers->ended);
}

void workers_free(struct workers *workers)
{
    workers_stop(workers, clock_mono_ms() + LEAVE_MS);
    for (size_t i = 0; i < workers->count; i++) {
        pthread_join(workers->list[i].thread, NULL);
        close(workers->list[i].context.wake_fd);
    }
    pthread_cond_destroy(&workers->gone);
    pthread_mutex_destroy(&workers->lock);
    free(workers->list);
    free(workers);
}
