/* Shared resources: the amount in use, the limit, and the number of refusals. */
#include "core/lib/settings.h"
#include "core/main/metrics.h"
#include "core/module/pool.h"
#include "core/module/quota.h"
#include "core/server/http.h"
#include "core/store/pg.h"

struct amount {
    size_t taken, all, each;
};

/* All pools of the generation that answers the request. */
static struct amount pools(const struct metrics *metrics)
{
    struct amount amount = {0};
    struct work_pool_status pool;

    for (size_t i = 0; work_pool_snapshot(metrics->rq->generation->pools, i, &pool); i++) {
        amount.taken += pool.busy + pool.waiting;
        amount.all += pool.threads + pool.most;
        amount.each += pool.each;
    }
    return amount;
}

/* All pools of all loops, each of which has a separate queue. */
static struct amount database(const struct metrics *metrics)
{
    const struct generation *g = metrics->rq->generation;
    size_t queue = (size_t)host_settings(g->settings)->database.queue, pools = 0;
    struct amount amount = {0};

    for (unsigned i = 0; i < metrics->engine->loop_count; i++) {
        const struct loop *loop = &metrics->engine->loops[i];

        for (int kind = 0; loop->pg && kind < PG_POOLS; kind++, pools++)
            amount.taken += atomic_load_explicit(&loop->stats.waiting[kind], memory_order_relaxed);
    }
    amount.all = queue * pools;
    amount.each = quota_part(g->request.share, queue) * pools;
    return amount;
}

static struct amount connections(const struct metrics *metrics)
{
    struct http_settings settings =
        http_settings_of(metrics->rq->generation, &metrics->engine->listeners);

    return (struct amount){.taken = quota_taken(&quota_tables[QUOTA_CONNECTIONS]),
                           .all = settings.max_connections,
                           .each = settings.per_address};
}

static struct amount amount_of(const struct metrics *metrics, enum quota quota)
{
    if (quota == QUOTA_POOLS)
        return pools(metrics);
    if (quota == QUOTA_DATABASE)
        return database(metrics);
    if (quota == QUOTA_CONNECTIONS)
        return connections(metrics);
    struct quota_limits bounds = quota_bounds(metrics->rq->generation, quota);

    return (struct amount){quota_taken(&quota_tables[quota]), bounds.all, bounds.each};
}

static void say(struct metrics *metrics, enum quota quota, const char *whose, double number)
{
    fprintf(metrics->out, "%s{resource=\"%s\",whose=\"%s\"}", metrics->name, quota_names[quota],
            whose);
    metric_end(metrics, number);
}

void metrics_shares_taken(struct metrics *metrics)
{
    for (enum quota quota = 0; quota < QUOTAS; quota++)
        metric_labelled(metrics, "resource", quota_names[quota],
                        (double)amount_of(metrics, quota).taken);
}

void metrics_shares_limit(struct metrics *metrics)
{
    for (enum quota quota = 0; quota < QUOTAS; quota++) {
        struct amount amount = amount_of(metrics, quota);

        say(metrics, quota, "all", (double)amount.all);
        say(metrics, quota, "owner", (double)amount.each);
    }
}

void metrics_shares_refused(struct metrics *metrics)
{
    for (enum quota quota = 0; quota < QUOTAS; quota++) {
        say(metrics, quota, "all", (double)quota_refused(quota, false));
        say(metrics, quota, "owner", (double)quota_refused(quota, true));
    }
}
