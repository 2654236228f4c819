/* Statistics of each loop: its connections, both of clients and in its pools to PostgreSQL. */
#include "core/observe/metrics.h"
#include "core/postgres/pg.h"

static double stat_of(const atomic_size_t *number)
{
    return (double)atomic_load_explicit(number, memory_order_relaxed);
}

/* Writes a line for each loop; `place` is the offset of the number in the statistics. */
static void each_loop(struct metrics *metrics, size_t place)
{
    for (unsigned i = 0; i < metrics->engine->loop_count; i++) {
        const char *told = (const char *)&metrics->engine->loops[i].stats;
        char index[16];

        snprintf(index, sizeof index, "%u", i);
        metric_labelled(metrics, "loop", index,
                        stat_of((const atomic_size_t *)(const void *)(told + place)));
    }
}

static void each_pg_pool(struct metrics *metrics, size_t place)
{
    for (unsigned i = 0; i < metrics->engine->loop_count; i++) {
        const struct loop *loop = &metrics->engine->loops[i];
        const atomic_size_t *numbers =
            (const atomic_size_t *)(const void *)((const char *)&loop->stats + place);

        for (int kind = 0; loop->pg && kind < PG_POOLS; kind++) {
            fprintf(metrics->out, "%s{loop=\"%u\",lane=\"%s\"}", metrics->name, i,
                    pg_pool_names[kind]);
            metric_end(metrics, stat_of(&numbers[kind]));
        }
    }
}

void metrics_connections(struct metrics *metrics)
{
    each_loop(metrics, offsetof(struct loop_stats, connections));
}

void metrics_rejected(struct metrics *metrics)
{
    each_loop(metrics, offsetof(struct loop_stats, rejected));
}

void metrics_alive(struct metrics *metrics)
{
    each_loop(metrics, offsetof(struct loop_stats, requests));
}

void metrics_pg_pool_ready(struct metrics *metrics)
{
    each_pg_pool(metrics, offsetof(struct loop_stats, ready));
}

void metrics_pg_pool_waiting(struct metrics *metrics)
{
    each_pg_pool(metrics, offsetof(struct loop_stats, waiting));
}

void metrics_pg_pool_batches(struct metrics *metrics)
{
    each_pg_pool(metrics, offsetof(struct loop_stats, batches));
}

void metrics_pg_pool_shared(struct metrics *metrics)
{
    each_pg_pool(metrics, offsetof(struct loop_stats, shared));
}

void metrics_pg_pool_sharers(struct metrics *metrics)
{
    each_pg_pool(metrics, offsetof(struct loop_stats, sharers));
}
