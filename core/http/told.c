/* What a loop tells of itself, for those who watch: its connections, of clients and to PostgreSQL.
 */
#include "core/http/told.h"

#include "core/postgres/pg.h"

void told_publish(struct loop *loop, size_t connections, size_t rejected)
{
    struct loop_told *told = &loop->told;

    atomic_store_explicit(&told->at_ms, loop->now_ms, memory_order_relaxed);
    atomic_store_explicit(&told->requests, loop->requests, memory_order_relaxed);
    atomic_store_explicit(&told->connections, connections, memory_order_relaxed);
    atomic_store_explicit(&told->rejected, rejected, memory_order_relaxed);
    for (int kind = 0; loop->pg && kind < PG_LANES; kind++) {
        struct pg_lane_status lane;

        pg_lane_look(loop->pg, (enum pg_lane_kind)kind, &lane);
        atomic_store_explicit(&told->ready[kind], lane.ready, memory_order_relaxed);
        atomic_store_explicit(&told->waiting[kind], lane.waiting, memory_order_relaxed);
        atomic_store_explicit(&told->batches[kind], lane.batches, memory_order_relaxed);
    }
}
