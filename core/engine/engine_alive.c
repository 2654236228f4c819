/* What threads beside the loops ask of the engine: who is alive, and that it stays so meanwhile. */
#include <semaphore.h>

#include "core/engine/engine.h"
#include "core/request/worker.h"

struct generation *engine_generation(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    struct generation *generation = engine->generation;
    generation_acquire(generation);
    pthread_mutex_unlock(&engine->lock);
    return generation;
}

size_t engine_generations(struct engine *engine, struct generation **list)
{
    size_t count = 0;

    pthread_mutex_lock(&engine->lock);
    for (struct generation *g = engine->alive; g && count < GENERATIONS_MAX; g = g->next_alive)
        if (generation_try_acquire(g))
            list[count++] = g;
    pthread_mutex_unlock(&engine->lock);
    return count;
}

void engine_generations_release(struct generation **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        generation_release(list[i]);
}

int engine_hold(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    int failed = engine->stopping ? -1 : 0;
    if (!failed)
        engine->held++;
    pthread_mutex_unlock(&engine->lock);
    return failed;
}

void engine_unhold(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->held--;
    pthread_mutex_unlock(&engine->lock);
}

bool engine_stopping(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    bool stopping = engine->stopping;
    pthread_mutex_unlock(&engine->lock);
    return stopping;
}

void engine_stop(struct engine *engine, int64_t until_ms)
{
    pthread_mutex_lock(&engine->lock);
    engine->stopping = true;
    for (struct generation *g = engine->alive; g; g = g->next_alive)
        workers_stop(g->workers, until_ms);
    pthread_mutex_unlock(&engine->lock);
}

bool engine_idle(struct engine *engine)
{
    pthread_mutex_lock(&engine->lock);
    bool idle = !engine->held;
    for (struct generation *g = engine->alive; g && idle; g = g->next_alive)
        idle = workers_ended(g->workers);
    pthread_mutex_unlock(&engine->lock);
    return idle;
}

struct loop_call {
    struct message message; /* first */
    struct loop *loop;
    void (*call)(struct loop *, void *);
    void *arg;
    sem_t *done;
};

static void loop_call(struct message *message)
{
    struct loop_call *call = (struct loop_call *)(void *)message;

    call->call(call->loop, call->arg);
    sem_post(call->done);
}

void engine_each_loop(struct engine *engine, void (*call)(struct loop *, void *), void *arg)
{
    sem_t done;

    sem_init(&done, 0, 0);
    for (unsigned i = 0; i < engine->loop_count; i++) {
        struct loop_call each = {.message.run = loop_call,
                                 .loop = &engine->loops[i],
                                 .call = call,
                                 .arg = arg,
                                 .done = &done};

        loop_post(each.loop, &each.message);
        while (sem_wait(&done)) /* interrupted */
            ;
    }
    sem_destroy(&done);
}
