#include "core/module/quota.h"

#include <stdlib.h>
#include <string.h>

#include "core/lib/log.h"
#include "core/lib/thread.h"
#include "core/module/request.h"

enum { ROWS = sizeof((struct quota_table *)0)->rows / sizeof(struct quota_entry *) };

const char *const quota_names[QUOTAS] = {
    [QUOTA_CONNECTIONS] = "connections",
    [QUOTA_REQUESTS] = "requests",
    [QUOTA_ANONYMOUS] = "anonymous",
    [QUOTA_BODIES] = "bodies",
    [QUOTA_ANSWERS] = "answers",
    [QUOTA_UPLOADS] = "uploads",
    [QUOTA_POOLS] = "pools",
    [QUOTA_DATABASE] = "database",
};

struct quota_table quota_tables[QUOTA_TABLES] = {[0 ... QUOTA_TABLES - 1] = QUOTA_TABLE(0)};

static atomic_ullong refused[QUOTAS][2];

/* ---- owners ---- */

bool quota_owner_same(const struct quota_owner *one, const struct quota_owner *other)
{
    return one->account == other->account &&
           !memcmp(&one->network, &other->network, sizeof one->network);
}

bool quota_exempt(const struct core_request *rq)
{
    return rq->kind != REQUEST_HTTP;
}

/* Returns the link to the owner's entry, or the link where it must be inserted. Under the lock. */
static struct quota_entry **quota_find(struct quota_table *table, const struct quota_owner *owner)
{
    uint64_t words[2], hash;

    memcpy(words, &owner->network, sizeof words);
    hash = ((uint64_t)owner->account ^ words[0] * 3 ^ words[1]) * 0x9e3779b97f4a7c15U >> 32;
    struct quota_entry **at = &table->rows[hash % ROWS];

    while (*at && !quota_owner_same(&(*at)->owner, owner))
        at = &(*at)->next;
    return at;
}

/* Adds `more` to the owner's amount. Returns NULL if memory ran out. Called under the lock. */
static struct quota_entry *quota_add(struct quota_table *table, struct quota_entry **at,
                                     const struct quota_owner *owner, size_t more)
{
    struct quota_entry *entry = *at ? *at : table->spares;

    if (!entry) {
        entry = calloc(1, sizeof *entry + table->queues * sizeof entry->flows[0]);
        for (unsigned i = 0; entry && i < table->queues; i++)
            STAILQ_INIT(&entry->flows[i].entries);
    }
    if (!entry)
        return NULL;
    if (!*at) {
        if (entry == table->spares)
            table->spares = entry->next;
        entry->owner = *owner;
        entry->rest_until_ms = 0;
        entry->next = NULL;
        *at = entry;
    }
    entry->taken += more;
    table->taken += more;
    return entry;
}

/* Subtracts up to `less` from the owner's amount; returns by how much. Under the lock. */
static size_t quota_remove(struct quota_table *table, const struct quota_owner *owner, size_t less)
{
    struct quota_entry **at = quota_find(table, owner), *entry = *at;

    if (!entry)
        return 0;
    less = less < entry->taken ? less : entry->taken;
    entry->taken -= less;
    table->taken -= less;
    if (!entry->taken) {
        *at = entry->next;
        entry->next = table->spares;
        table->spares = entry;
    }
    return less;
}

void quota_table_free(struct quota_table *table)
{
    for (size_t i = 0; i <= ROWS; i++) {
        struct quota_entry **row = i < ROWS ? &table->rows[i] : &table->spares, *entry;

        while ((entry = *row)) {
            *row = entry->next;
            free(entry);
        }
    }
}

/* ---- caps ---- */

size_t quota_part(size_t percent, size_t all)
{
    size_t part = all / 100 * percent + all % 100 * percent / 100;

    return part ? part : 1;
}

struct quota_limits quota_bounds(const struct generation *generation, enum quota quota)
{
    const struct host_settings *host = generation->host;
    size_t requests = (size_t)host->http.max_requests;
    size_t all = quota == QUOTA_BODIES      ? (size_t)host->http.max_bodies
                 : quota == QUOTA_ANSWERS   ? (size_t)host->http.max_answers
                 : quota == QUOTA_UPLOADS   ? (size_t)host->http.max_uploads
                 : quota == QUOTA_ANONYMOUS ? requests / 2
                                            : requests;
    int64_t percent =
        quota == QUOTA_BODIES || quota == QUOTA_ANSWERS ? host->http.bodies_per_account : 0;

    if (!percent)
        percent = host->http.client_percent;
    return (struct quota_limits){.all = all, .each = quota_part((size_t)percent, all)};
}

/* Returns whether the amount `now` is allowed; the charge `own` alone may exceed `bound`. */
static bool quota_fits(size_t now, size_t bound, size_t own)
{
    return now <= bound || now == own;
}

enum quota_result quota_take(struct quota_table *table, struct quota_charge *charge,
                             const struct quota_owner *owner, size_t more,
                             const struct quota_limits *bounds)
{
    if (!charge->bytes)
        charge->owner = *owner;
    BB_LOCKED(&table->lock);
    struct quota_entry **at = quota_find(table, &charge->owner);
    size_t own = *at ? (*at)->taken : 0;

    if (!quota_fits(own + more, bounds->each, charge->bytes + more))
        return QUOTA_OWN_FULL;
    if (!quota_fits(table->taken + more, bounds->all, charge->bytes + more))
        return QUOTA_ALL_FULL;
    if (more && !quota_add(table, at, &charge->owner, more))
        return QUOTA_NO_MEMORY;
    charge->bytes += more;
    return QUOTA_TAKEN;
}

int quota_charge(struct core_request *rq, enum quota quota, struct quota_charge *charge,
                 size_t more, const struct quota_limits *bounds)
{
    enum quota_result answer = quota_take(&quota_tables[quota], charge, &rq->owner, more, bounds);

    return answer == QUOTA_TAKEN ? 0 : quota_fail(rq, quota, answer);
}

void quota_release(struct quota_table *table, struct quota_charge *charge, size_t bytes)
{
    size_t held = bytes < charge->bytes ? bytes : charge->bytes;

    pthread_mutex_lock(&table->lock);
    size_t released = quota_remove(table, &charge->owner, held);
    pthread_mutex_unlock(&table->lock);
    charge->bytes -= held;
    if (released != bytes)
        log_line(BB_ERROR, "quota released without a charge", NULL);
}

void quota_release_all(struct quota_table *table, struct quota_charge *charge)
{
    if (charge->bytes)
        quota_release(table, charge, charge->bytes);
}

size_t quota_entry_of(struct quota_table *table, const struct quota_owner *owner)
{
    BB_LOCKED(&table->lock);
    const struct quota_entry *entry = *quota_find(table, owner);

    return entry ? entry->taken : 0;
}

size_t quota_taken(struct quota_table *table)
{
    return atomic_load_explicit(&table->taken, memory_order_relaxed);
}

void quota_count(enum quota quota, bool own)
{
    atomic_fetch_add_explicit(&refused[quota][own], 1, memory_order_relaxed);
}

unsigned long long quota_refused(enum quota quota, bool own)
{
    return atomic_load_explicit(&refused[quota][own], memory_order_relaxed);
}

int quota_fail(struct core_request *rq, enum quota quota, enum quota_result why)
{
    if (why == QUOTA_NO_MEMORY)
        return request_fail(rq, FAILED_MEMORY);
    quota_count(quota, why == QUOTA_OWN_FULL);
    return request_fail(rq, why == QUOTA_OWN_FULL ? FAILED_SHARE : FAILED_BUSY);
}

/* ---- turns ---- */

struct quota_entry *fair_enter(struct quota_table *table, const struct quota_owner *owner,
                               size_t each, enum quota_result *why)
{
    BB_LOCKED(&table->lock);
    struct quota_entry **at = quota_find(table, owner);
    bool fits = (*at ? (*at)->taken : 0) < each;
    struct quota_entry *entry = fits ? quota_add(table, at, owner, 1) : NULL;

    *why = entry ? QUOTA_TAKEN : fits ? QUOTA_NO_MEMORY : QUOTA_OWN_FULL;
    return entry;
}

void fair_leave(struct quota_table *table, struct quota_entry *owner)
{
    BB_LOCKED(&table->lock);
    quota_remove(table, &owner->owner, 1);
}

struct fair_flow *fair_flow(const struct fair_queue *queue, const struct fair_entry *entry)
{
    return &entry->owner->flows[queue->index];
}

void fair_wait(struct fair_queue *queue, struct fair_entry *entry)
{
    struct fair_flow *flow = fair_flow(queue, entry);

    if (STAILQ_EMPTY(&flow->entries)) {
        STAILQ_INSERT_TAIL(&queue->round, flow, next);
        queue->flows++;
    }
    STAILQ_INSERT_TAIL(&flow->entries, entry, next);
}

struct fair_entry *fair_first(const struct fair_queue *queue)
{
    return STAILQ_EMPTY(&queue->round) ? NULL : STAILQ_FIRST(&STAILQ_FIRST(&queue->round)->entries);
}

struct fair_entry *fair_take(struct fair_queue *queue)
{
    struct fair_entry *entry = fair_first(queue);
    struct fair_flow *flow = STAILQ_FIRST(&queue->round);

    if (!entry)
        return NULL;
    STAILQ_REMOVE_HEAD(&queue->round, next);
    STAILQ_REMOVE_HEAD(&flow->entries, next);
    if (STAILQ_EMPTY(&flow->entries))
        queue->flows--;
    else
        STAILQ_INSERT_TAIL(&queue->round, flow, next);
    return entry;
}

void fair_skip(struct fair_queue *queue)
{
    struct fair_flow *flow = STAILQ_FIRST(&queue->round);

    if (!flow)
        return;
    STAILQ_REMOVE_HEAD(&queue->round, next);
    STAILQ_INSERT_TAIL(&queue->round, flow, next);
}

void fair_cancel(struct fair_queue *queue, struct fair_entry *entry)
{
    struct fair_flow *flow = fair_flow(queue, entry);

    STAILQ_REMOVE(&flow->entries, entry, fair_entry, next);
    if (!STAILQ_EMPTY(&flow->entries))
        return;
    STAILQ_REMOVE(&queue->round, flow, fair_flow, next);
    queue->flows--;
}
