#include "core/lib/quota_table.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/lib/log.h"

enum { ROWS = 256 };

struct quota_entry {
    struct quota_entry *next; /* next in the same row */
    struct quota_owner owner;
    size_t bytes;
};

struct quota_table {
    pthread_mutex_t lock;
    atomic_size_t bytes; /* total; changed under the lock */
    struct quota_entry *rows[ROWS];
};

struct quota_table *quota_table_new(void)
{
    struct quota_table *table = calloc(1, sizeof *table);

    if (table && pthread_mutex_init(&table->lock, NULL)) {
        free(table);
        return NULL;
    }
    return table;
}

void quota_table_free(struct quota_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < ROWS; i++) {
        struct quota_entry *next;

        for (struct quota_entry *at = table->rows[i]; at; at = next) {
            next = at->next;
            free(at);
        }
    }
    pthread_mutex_destroy(&table->lock);
    free(table);
}

bool quota_owner_same(const struct quota_owner *one, const struct quota_owner *other)
{
    return one->account == other->account &&
           !memcmp(&one->network, &other->network, sizeof one->network);
}

bool quota_owner_host(const struct quota_owner *owner)
{
    return quota_owner_same(owner, &(struct quota_owner){0});
}

uint64_t quota_owner_hash(const struct quota_owner *owner)
{
    uint64_t words[2];

    memcpy(words, &owner->network, sizeof words);
    uint64_t hash = (uint64_t)owner->account ^ words[0] * 3 ^ words[1];

    return hash * 0x9e3779b97f4a7c15U >> 32;
}

/* Returns the link to the owner's entry, or the link where it must be inserted. Under the lock. */
static struct quota_entry **find(struct quota_table *table, const struct quota_owner *owner)
{
    struct quota_entry **at = &table->rows[quota_owner_hash(owner) % ROWS];

    while (*at && !quota_owner_same(&(*at)->owner, owner))
        at = &(*at)->next;
    return at;
}

static struct quota_entry *begin(struct quota_entry **at, const struct quota_owner *owner)
{
    struct quota_entry *entry = calloc(1, sizeof *entry);

    if (entry) {
        entry->owner = *owner;
        *at = entry;
    }
    return entry;
}

/* Whether `now` is within the bound, or consists of one task's charge only. */
static bool fits(size_t now, size_t bound, size_t own)
{
    return now <= bound || now == own;
}

enum quota_result quota_take(struct quota_table *table, struct quota_charge *charge,
                             const struct quota_owner *owner, size_t more,
                             const struct quota_limits *bounds)
{
    enum quota_result answer = QUOTA_TAKEN;

    if (!charge->bytes)
        charge->owner = *owner;
    pthread_mutex_lock(&table->lock);
    struct quota_entry **at = find(table, &charge->owner);
    size_t own = *at ? (*at)->bytes : 0;

    if (!fits(own + more, bounds->each, charge->bytes + more))
        answer = QUOTA_OWN_FULL;
    else if (!fits(table->bytes + more, bounds->all, charge->bytes + more))
        answer = QUOTA_ALL_FULL;
    else if (more && !*at && !begin(at, &charge->owner))
        answer = QUOTA_NO_MEMORY;
    if (answer == QUOTA_TAKEN && more) {
        (*at)->bytes += more;
        table->bytes += more;
        charge->bytes += more;
    }
    pthread_mutex_unlock(&table->lock);
    return answer;
}

/* If even the total is below the limit, no lock is needed. */
bool quota_is_full(struct quota_table *table, const struct quota_owner *owner, size_t each)
{
    if (quota_taken(table) < each)
        return false;
    pthread_mutex_lock(&table->lock);
    const struct quota_entry *entry = *find(table, owner);
    bool full = entry && entry->bytes >= each;
    pthread_mutex_unlock(&table->lock);
    return full;
}

size_t quota_entry_of(struct quota_table *table, const struct quota_owner *owner)
{
    pthread_mutex_lock(&table->lock);
    const struct quota_entry *entry = *find(table, owner);
    size_t bytes = entry ? entry->bytes : 0;
    pthread_mutex_unlock(&table->lock);
    return bytes;
}

/* Subtracts from the owner's entry; returns the amount that it had. Under the lock. */
static size_t take_off(struct quota_table *table, const struct quota_owner *owner, size_t bytes)
{
    struct quota_entry **at = find(table, owner), *entry = *at;

    if (!entry)
        return 0;
    if (bytes > entry->bytes)
        bytes = entry->bytes;
    entry->bytes -= bytes;
    table->bytes -= bytes;
    if (!entry->bytes) {
        *at = entry->next;
        free(entry);
    }
    return bytes;
}

void quota_release(struct quota_table *table, struct quota_charge *charge, size_t bytes)
{
    size_t held = bytes < charge->bytes ? bytes : charge->bytes;

    pthread_mutex_lock(&table->lock);
    size_t released = take_off(table, &charge->owner, held);

    pthread_mutex_unlock(&table->lock);
    charge->bytes -= held;
    if (released != bytes)
        log_line(BB_ERROR, "a quota was released that was not charged", NULL);
}

void quota_release_all(struct quota_table *table, struct quota_charge *charge)
{
    if (charge->bytes)
        quota_release(table, charge, charge->bytes);
}

size_t quota_taken(struct quota_table *table)
{
    return atomic_load_explicit(&table->bytes, memory_order_relaxed);
}
