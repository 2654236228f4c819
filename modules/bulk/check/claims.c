#include "modules/bulk/check/claims.h"

#include <stdlib.h>
#include <string.h>

#include "modules/common/hash.h"

static uint64_t mixed(uint64_t x)
{
    x ^= x >> 33;
    x *= 0xff51afd7ed558ccdULL;
    x ^= x >> 33;
    x *= 0xc4ceb9fe1a85ec53ULL;
    return x ^ (x >> 33);
}

/* Two 64-bit digests: accidental collisions do not occur in practice. */
static void digest(const char *name, uint64_t digest[2])
{
    uint64_t b = 0x84222325cbf29ce4ULL;

    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        b = mixed(b ^ *at);
    digest[0] = mixed(hash_bytes(HASH_SEED, name, strlen(name)));
    digest[1] = b;
}

int claims_reserve(struct claims *claims, size_t count)
{
    claims->list = calloc(count ? count : 1, sizeof(*claims->list));
    claims->room = claims->list ? count : 0;
    return claims->list ? 0 : -1;
}

int claims_add(struct claims *claims, const char *name, struct claim claim)
{
    if (claims->count == claims->room) {
        size_t room = claims->room ? claims->room + claims->room / 2 : 1024;
        struct claim *list = realloc(claims->list, room * sizeof(*list));

        if (!list)
            return -1;
        claims->list = list;
        claims->room = room;
    }
    if (!claim.from && !claim.until) {
        claim.from = INT64_MIN;
        claim.until = INT64_MAX;
    }
    digest(name, claim.name);
    claims->list[claims->count++] = claim;
    return 0;
}

void claims_free(struct claims *claims)
{
    free(claims->list);
    *claims = (struct claims){NULL, 0, 0};
}

static int order(const void *left, const void *right)
{
    const struct claim *a = left, *b = right;

    for (size_t i = 0; i < 2; i++)
        if (a->name[i] != b->name[i])
            return a->name[i] < b->name[i] ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static bool same_name(const struct claim *a, const struct claim *b)
{
    return a->name[0] == b->name[0] && a->name[1] == b->name[1];
}

/*
 * If two claims overlap, the later row is the one with the problem, and later claims are compared
 * with the earlier row.
 */
void claims_judge(void *arg)
{
    struct claims *claims = arg;
    struct claim *holder = NULL;

    if (claims->count)
        qsort(claims->list, claims->count, sizeof(*claims->list), order);
    for (size_t i = 0; i < claims->count; i++) {
        struct claim *claim = &claims->list[i];

        if (!holder || !same_name(holder, claim) || claim->from >= holder->until) {
            holder = claim;
        } else if (claim->number > holder->number) {
            claim->against = holder->number;
        } else {
            holder->against = claim->number;
            holder = claim;
        }
    }
}
