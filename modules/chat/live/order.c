/* The order of a page's transactions. */
#include <string.h>

#include "modules/chat/live/live.h"

/* One transaction that comes before another, because both wrote to one conversation. */
struct edge {
    size_t first, then;
};

static int by_chain(const void *a, const void *b)
{
    const struct chat_row *one = a, *other = b;

    if (one->conversation != other->conversation)
        return one->conversation < other->conversation ? -1 : 1;
    return one->seq < other->seq ? -1 : one->seq > other->seq;
}

/*
 * Fills the edges and counts, in `waits`, the edges that lead to each group. Returns the number of
 * edges.
 */
static size_t edges_of(struct bb_request *rq, const struct chat_row *rows, size_t count,
                       struct edge *edges, size_t *waits)
{
    struct chat_row *chain = bb_alloc(rq, count * sizeof(*chain));
    size_t found = 0;

    memcpy(chain, rows, count * sizeof(*chain));
    qsort(chain, count, sizeof(*chain), by_chain);
    for (size_t i = 1; i < count; i++) {
        if (chain[i].conversation != chain[i - 1].conversation ||
            chain[i].group == chain[i - 1].group)
            continue;
        edges[found++] = (struct edge){chain[i - 1].group, chain[i].group};
        waits[chain[i].group]++;
    }
    return found;
}

/* Returns the first group that waits for no other. PostgreSQL's locks rule out cycles. */
static size_t next_group(const size_t *waits, const bool *done, size_t groups)
{
    size_t first = groups;

    for (size_t i = 0; i < groups; i++) {
        if (done[i])
            continue;
        if (waits[i] == 0)
            return i;
        if (first == groups)
            first = i;
    }
    return first;
}

void chat_order(struct bb_request *rq, const struct chat_row *rows, size_t count, size_t *order,
                size_t groups)
{
    struct edge *edges = bb_alloc(rq, count * sizeof(*edges));
    size_t *waits = bb_alloc(rq, groups * sizeof(*waits));
    bool *done = bb_alloc(rq, groups * sizeof(*done));
    size_t edge_count = edges_of(rq, rows, count, edges, waits);

    for (size_t i = 0; i < groups; i++) {
        order[i] = next_group(waits, done, groups);
        done[order[i]] = true;
        for (size_t e = 0; e < edge_count; e++)
            if (edges[e].first == order[i] && waits[edges[e].then] > 0)
                waits[edges[e].then]--;
    }
}
