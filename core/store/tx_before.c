/*
 * bb_before(): functions of modules that run once before an interactive transaction is committed.
 */
#include "core/module/module_error.h"
#include "core/store/sql.h"

enum { RUNS_MAX = 1000 }; /* per transaction */

/* A block for each module and function, in the order of their first calls. */
static struct tx_before *
block_new(struct bb_tx *tx, int (*last)(struct bb_request *, struct bb_tx *, void *), size_t size)
{
    struct arena *arena = tx->rq->arena;
    struct tx_before *block = arena_alloc(arena, sizeof *block), **end = &tx->before;

    if (block)
        block->state = arena_alloc(arena, size);
    if (!block || !block->state)
        request_out_of_memory(tx->rq);
    while (*end)
        end = &(*end)->next;
    block->host = tx->rq->pub.host;
    block->last = last;
    *end = block;
    return block;
}

/* A block is removed from the list before it is used: later calls create a new one. */
void *api_before(struct bb_tx *tx, int (*last)(struct bb_request *, struct bb_tx *, void *),
                 size_t size)
{
    if (!tx_usable(request_running(), tx, "bb_before()") || !tx->checked_out)
        return NULL;
    for (struct tx_before *at = tx->before; at; at = at->next) {
        if (at->last == last)
            return at->state;
    }
    return block_new(tx, last, size)->state;
}

/*
 * Runs like a `within` hook: its statements wait for no result. Its answer replaces the answer that
 * is withheld until the commit, and is kept if it failed.
 */
static int run_last(struct bb_tx *tx, const struct tx_before *block)
{
    struct core_request *rq = tx->rq;
    struct bb_host *publisher = rq->pub.host;
    int waiting = rq->response.status;

    rq->response.status = 0;
    request_enter(rq, block->host);
    rq->within++;
    int failed = block->last(&rq->pub, tx, block->state);
    rq->within--;
    request_enter(rq, publisher);
    failed = failed || rq->within_failed ? -1 : 0;
    if (failed && rq->response.status)
        request_fail(rq, FAILED_ANSWERED);
    if (!rq->response.status)
        rq->response.status = waiting;
    return failed;
}

int tx_run_before(struct bb_tx *tx)
{
    for (int runs = 0; tx->before; runs++) {
        const struct tx_before *block = tx->before;

        if (runs == RUNS_MAX) {
            module_error(tx->rq, "bb_before() is called in a circle", NULL);
            return -1;
        }
        tx->before = block->next;
        if (run_last(tx, block))
            return -1;
    }
    return 0;
}
