/* Statistics that a loop publishes: its connections, both of clients and to PostgreSQL. */
#include "core/server/loop_stats.h"

#include "core/store/pg.h"

void loop_stats_publish(struct loop *loop, size_t connections, size_t rejected)
{
    struct loop_stats *stats = &loop->stats;

    atomic_store_explicit(&stats->at_ms, loop->now_ms, memory_order_relaxed);
    atomic_store_explicit(&stats->requests, loop->requests, memory_order_relaxed);
    atomic_store_explicit(&stats->connections, connections, memory_order_relaxed);
    atomic_store_explicit(&stats->rejected, rejected, memory_order_relaxed);
    for (int kind = 0; loop->pg && kind < PG_POOLS; kind++) {
        struct pg_pool_status pool;

        pg_pool_snapshot(loop->pg, (enum pg_pool_kind)kind, &pool);
        atomic_store_explicit(&stats->ready[kind], pool.ready, memory_order_relaxed);
        atomic_store_explicit(&stats->waiting[kind], pool.waiting, memory_order_relaxed);
        atomic_store_explicit(&stats->batches[kind], pool.batches, memory_order_relaxed);
        atomic_store_explicit(&stats->shared[kind], pool.shared, memory_order_relaxed);
        atomic_store_explicit(&stats->sharers[kind], pool.sharers, memory_order_relaxed);
    }
}
