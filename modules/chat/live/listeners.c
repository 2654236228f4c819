#include "modules/chat/live/listeners.h"

#include <string.h>

#include "modules/common/hash.h"

enum { TABLE = 4096, ACCOUNTS = 1024 };

static const char everybody[] = "*";

/* Someone who chooses colliding e-mails can only slow down the fan-out of events. */
static uint64_t hash_text(const char *text)
{
    uint64_t hash = HASH_SEED;

    while (*text)
        hash = hash_bytes(hash, text++, 1);
    return hash;
}

static uint64_t hash_organization(int64_t organization)
{
    uint64_t hash = (0x9e3779b97f4a7c15U ^ (uint64_t)organization) * 0x100000001b3U;

    return hash ^ hash >> 29;
}

int listeners_init(struct listeners *all)
{
    *all = (struct listeners){.table = calloc(TABLE, sizeof(struct listener_key *)),
                              .accounts = calloc(ACCOUNTS, sizeof(struct listener_account *))};
    if (all->table && all->accounts)
        return 0;
    listeners_free(all);
    return -1;
}

void listeners_free(struct listeners *all)
{
    free(all->table);
    free(all->accounts);
}

/* ---- one listener ---- */

/* The scope's strings and numbers are stored after the keys. */
static void copy_scope(struct chat_listener *listener, const struct chat_scope *scope)
{
    size_t count = scope->organization_count;
    int64_t *organizations = (int64_t *)(void *)(listener->keys + count + 1);
    char *own = (char *)(organizations + count);

    listener->scope = *scope;
    if (count)
        memcpy(organizations, scope->organizations, count * sizeof(*organizations));
    memcpy(own, scope->own, strlen(scope->own) + 1);
    listener->scope.organizations = organizations;
    listener->scope.own = own;
}

struct chat_listener *chat_listener_new(struct bb_host *host, const struct chat_scope *scope,
                                        int64_t account, const struct chat_cursor *at)
{
    size_t count = scope->organization_count;
    struct chat_listener *listener =
        calloc(1, sizeof(*listener) + (count + 1) * sizeof(struct listener_key) +
                      count * sizeof(int64_t) + strlen(scope->own) + 1);
    struct chat_cursor *copy = malloc(sizeof(*copy));

    if (!listener || !copy) {
        free(listener);
        free(copy);
        return NULL;
    }
    *copy = *at;
    listener->host = host;
    listener->at = copy;
    listener->account_id = account;
    copy_scope(listener, scope);
    if (scope->all) {
        listener->keys[listener->key_count++].hash = hash_text(everybody);
    } else {
        listener->keys[listener->key_count++].hash = hash_text(scope->own);
        for (size_t i = 0; i < count; i++)
            listener->keys[listener->key_count++].hash = hash_organization(scope->organizations[i]);
    }
    for (size_t i = 0; i < listener->key_count; i++)
        listener->keys[i].listener = listener;
    return listener;
}

void chat_listener_free(struct chat_listener *listener)
{
    free(listener->at);
    free(listener);
}

/* ---- accounts ---- */

/* Returns where the account is linked, or where it would be. */
static struct listener_account **account_place(const struct listeners *all, int64_t id)
{
    struct listener_account **place = &all->accounts[(uint64_t)id % ACCOUNTS];

    while (*place && (*place)->id != id)
        place = &(*place)->next;
    return place;
}

/* A new account starts as if it had just had a turn, so reconnecting gains nothing. */
static struct listener_account *account_join(struct listeners *all, int64_t id)
{
    struct listener_account **place = account_place(all, id);

    if (!*place)
        *place = calloc(1, sizeof(**place));
    if (!*place)
        return NULL;
    if (!(*place)->streams++) {
        (*place)->id = id;
        (*place)->turn = all->turns;
    }
    return *place;
}

size_t listeners_count(const struct listeners *all, int64_t account)
{
    const struct listener_account *found = *account_place(all, account);

    return found ? found->streams : 0;
}

/* ---- all of them ---- */

void listeners_set_behind(struct listeners *all, struct chat_listener *listener, bool behind)
{
    if (listener->behind == behind)
        return;
    listener->behind = behind;
    if (behind) {
        all->behind_count++;
        listener->before_behind = NULL;
        listener->next_behind = all->behind;
        if (listener->next_behind)
            listener->next_behind->before_behind = listener;
        all->behind = listener;
        return;
    }
    all->behind_count--;
    if (listener->next_behind)
        listener->next_behind->before_behind = listener->before_behind;
    if (listener->before_behind)
        listener->before_behind->next_behind = listener->next_behind;
    else
        all->behind = listener->next_behind;
}

int listeners_add(struct listeners *all, struct chat_listener *listener)
{
    listener->account = account_join(all, listener->account_id);
    if (!listener->account)
        return -1;
    listener->number = ++all->numbers;
    listener->turn = all->turns;
    listener->next = all->first;
    if (listener->next)
        listener->next->before = listener;
    all->first = listener;
    for (size_t i = 0; i < listener->key_count; i++) {
        struct listener_key *key = &listener->keys[i], **bucket = &all->table[key->hash % TABLE];

        key->next = *bucket;
        if (key->next)
            key->next->place = &key->next;
        key->place = bucket;
        *bucket = key;
    }
    all->count++;
    listeners_set_behind(all, listener, true);
    return 0;
}

void listeners_remove(struct listeners *all, struct chat_listener *listener)
{
    if (!listener->number)
        return;
    for (size_t i = 0; i < listener->key_count; i++) {
        struct listener_key *key = &listener->keys[i];

        *key->place = key->next;
        if (key->next)
            key->next->place = key->place;
    }
    if (listener->next)
        listener->next->before = listener->before;
    if (listener->before)
        listener->before->next = listener->next;
    else
        all->first = listener->next;
    listeners_set_behind(all, listener, false);
    if (!--listener->account->streams) {
        *account_place(all, listener->account_id) = listener->account->next;
        free(listener->account);
    }
    all->count--;
    listener->number = 0;
}

static void call_those(struct listeners *all, uint64_t hash,
                       void (*call)(struct chat_listener *listener, void *arg), void *arg)
{
    for (struct listener_key *key = all->table[hash % TABLE]; key; key = key->next) {
        if (key->hash != hash || key->listener->offered == all->offers)
            continue;
        key->listener->offered = all->offers;
        call(key->listener, arg);
    }
}

void listeners_of(struct listeners *all, const struct chat_facts *facts,
                  void (*call)(struct chat_listener *listener, void *arg), void *arg)
{
    all->offers++;
    call_those(all, hash_text(everybody), call, arg);
    call_those(all, hash_text(facts->participant1), call, arg);
    call_those(all, hash_text(facts->participant2), call, arg);
    if (facts->organization)
        call_those(all, hash_organization(facts->organization), call, arg);
}

/* ---- turns ---- */

/*
 * Orders by the account that has waited longest, then by the listener of it that has waited
 * longest.
 */
static bool before(const struct chat_listener *a, const struct chat_listener *b)
{
    if (a->account->turn != b->account->turn)
        return a->account->turn < b->account->turn;
    return a->turn != b->turn ? a->turn < b->turn : a->number < b->number;
}

struct chat_listener *listeners_turn(struct listeners *all,
                                     bool (*ready)(const struct chat_listener *listener))
{
    struct chat_listener *found = NULL;

    for (struct chat_listener *at = all->behind; at; at = at->next_behind)
        if ((!found || before(at, found)) && ready(at))
            found = at;
    if (found)
        found->turn = found->account->turn = ++all->turns;
    return found;
}
