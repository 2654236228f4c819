/* The units and transactions of a request: checks which of them a module may still use. */
#include "core/module/module_error.h"
#include "core/store/sql.h"

void tx_join(struct bb_tx *tx)
{
    tx->next = tx->rq->txs;
    tx->rq->txs = tx;
}

void tx_leave(struct bb_tx *tx)
{
    struct bb_tx **at = &tx->rq->txs;

    while (*at && *at != tx)
        at = &(*at)->next;
    if (*at)
        *at = tx->next;
}

bool tx_known(struct core_request *rq, const struct bb_tx *tx, const char *what)
{
    if (!rq) {
        log_line(BB_ERROR, "a module uses a transaction outside of a request", "detail", what,
                 NULL);
        return false;
    }
    for (const struct bb_tx *at = rq->txs; at; at = at->next) {
        if (at == tx)
            return true;
    }
    module_error(rq, "a module uses a unit or transaction that the request does not have", what);
    return false;
}

bool tx_usable(struct core_request *rq, const struct bb_tx *tx, const char *what)
{
    if (!tx_known(rq, tx, what))
        return false;
    if (!tx->over)
        return true;
    module_error(rq, "a module uses a unit that was committed", what);
    return false;
}
