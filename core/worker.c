#include "core/worker.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/log.h"

struct worker {
    struct bb_seat seat; /* first */
    const struct bb_worker *face;
    struct workers *all;
    pthread_t thread;
};

struct workers {
    struct worker *list;
    size_t count; /* started */
    atomic_bool stop;
    atomic_size_t ended;
};

static void ring(int fd)
{
    uint64_t one = 1;

    while (write(fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

bool api_stopping(struct bb_seat *seat)
{
    return atomic_load(&((struct worker *)(void *)seat)->all->stop);
}

void api_wake(struct bb_host *host, const char *name)
{
    const struct engine *engine = handle_of(host)->generation->engine;
    struct workers *workers = engine ? engine->workers : NULL;

    for (size_t i = 0; workers && i < workers->count; i++) {
        if (workers->list[i].seat.host == host && !strcmp(workers->list[i].face->name, name))
            ring(workers->list[i].seat.wake_fd);
    }
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;

    worker->face->run(&worker->seat);
    atomic_fetch_add(&worker->all->ended, 1);
    return NULL;
}

static int worker_start(struct workers *workers, const struct bb_worker *face, struct bb_host *host)
{
    struct worker *worker = &workers->list[workers->count];
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

    if (fd < 0)
        return -1;
    worker->seat = (struct bb_seat){.size = sizeof worker->seat, .host = host, .wake_fd = fd};
    worker->face = face;
    worker->all = workers;
    if (pthread_create(&worker->thread, NULL, worker_main, worker)) {
        close(fd);
        return -1;
    }
    workers->count++;
    return 0;
}

static int start_all(struct workers *workers, struct generation *generation)
{
    for (size_t i = 0; i < generation->module_count; i++) {
        struct core_module *module = &generation->modules[i];
        const struct bb_worker *faces = MODULE_ROWS(bb_worker, module->face->workers);

        for (size_t j = 0; j < module->face->workers.count; j++) {
            if (worker_start(workers, &faces[j], &module->handle.host))
                return -1;
        }
    }
    return 0;
}

struct workers *workers_new(struct generation *generation)
{
    struct workers *workers = calloc(1, sizeof *workers);
    size_t count = 1;

    if (!workers)
        return NULL;
    for (size_t i = 0; i < generation->module_count; i++)
        count += generation->modules[i].face->workers.count;
    workers->list = calloc(count, sizeof *workers->list);
    if (workers->list && !start_all(workers, generation))
        return workers;
    log_line(BB_ERROR, "a module's worker cannot be started", NULL);
    workers_free(workers);
    return NULL;
}

void workers_stop(struct workers *workers)
{
    atomic_store(&workers->stop, true);
    for (size_t i = 0; i < workers->count; i++)
        ring(workers->list[i].seat.wake_fd);
}

bool workers_ended(struct workers *workers)
{
    return atomic_load(&workers->ended) == workers->count;
}

void workers_free(struct workers *workers)
{
    workers_stop(workers);
    for (size_t i = 0; i < workers->count; i++) {
        pthread_join(workers->list[i].thread, NULL);
        close(workers->list[i].seat.wake_fd);
    }
    free(workers->list);
    free(workers);
}
