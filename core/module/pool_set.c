/* The pools of a generation: the host's own pool, and the pools that its modules declare. */
#include <stdlib.h>
#include <string.h>

#include "core/lib/log.h"
#include "core/module/pool_parts.h"

enum { OWN_QUEUE = 4096 };

struct work_pool *pool_find(struct work_pools *pools, const struct bb_host *host, const char *name)
{
    for (size_t i = 0; i < pools->count; i++) {
        if (pools->list[i].host == host && !strcmp(pools->list[i].descriptor->name, name))
            return &pools->list[i];
    }
    return NULL;
}

int pool_submit(struct work_pools *pools, const struct bb_host *host, const char *name,
                struct pool_call *call, bool bounded)
{
    struct work_pool *pool = pool_find(pools, host, name); /* a pool named by a route, which was
                                                            * checked */

    return pool && pool_enqueue(pool, call, SIZE_MAX, bounded) == QUOTA_TAKEN ? 0 : -1;
}

bool work_pool_snapshot(struct work_pools *pools, size_t index, struct work_pool_status *status)
{
    if (index >= pools->count)
        return false;
    struct work_pool *pool = &pools->list[index];

    *status = (struct work_pool_status){.module = pool->host ? pool->host->module->name : "busbar",
                                        .name = pool->descriptor->name,
                                        .threads = pool->descriptor->threads,
                                        .most = pool->descriptor->queue,
                                        .each = pool->each};
    pthread_mutex_lock(&pool->lock);
    status->started = pool->started;
    status->busy = pool->busy;
    status->waiting = pool->queued;
    pthread_mutex_unlock(&pool->lock);
    return true;
}

void work_pools_free(struct work_pools *pools)
{
    for (size_t i = 0; i < pools->count; i++)
        pool_stop(&pools->list[i]);
    free(pools->list);
    free(pools);
}

static size_t count_pools(const struct generation *generation)
{
    size_t count = 1;

    for (size_t i = 0; i < generation->module_count; i++)
        count += generation->modules[i].descriptor->pools.count;
    return count;
}

static int start_one(struct work_pools *pools, const struct generation *generation,
                     const struct bb_host *host, const struct bb_pool *descriptor)
{
    struct work_pool *pool = &pools->list[pools->count++];

    pool->host = host;
    pool->descriptor = descriptor;
    pool->each = quota_each(generation->settings, (size_t)descriptor->threads + descriptor->queue);
    return pool_start(pool);
}

static int start_all(struct work_pools *pools, const struct generation *generation, unsigned loops)
{
    pools->own =
        (struct bb_pool){.name = "bodies", .threads = loops, .queue = OWN_QUEUE, .nice = 10};
    if (start_one(pools, generation, NULL, &pools->own))
        return -1;
    for (size_t i = 0; i < generation->module_count; i++) {
        const struct core_module *module = &generation->modules[i];

        for (size_t j = 0; j < module->descriptor->pools.count; j++) {
            if (start_one(pools, generation, &module->handle.host,
                          &MODULE_ROWS(bb_pool, module->descriptor->pools)[j]))
                return -1;
        }
    }
    return 0;
}

struct work_pools *work_pools_new(const struct generation *generation, unsigned loops)
{
    struct work_pools *pools = calloc(1, sizeof *pools);

    if (!pools)
        return NULL;
    pools->list = calloc(count_pools(generation), sizeof *pools->list);
    if (pools->list && !start_all(pools, generation, loops))
        return pools;
    log_line(BB_ERROR, "the threads of a pool cannot be started", NULL);
    work_pools_free(pools);
    return NULL;
}
