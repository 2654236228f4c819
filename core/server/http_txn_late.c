/*
 * A pool call that is still in progress when the deadline of its request passes. The call may use
 * memory of the request, so the HTTP transaction stays until it has returned, but the client need
 * not wait for that. A successor, which is an HTTP transaction without a handler, takes over the
 * connection and answers 503.
 *
 * libmicrohttpd refers to the old HTTP transaction until its next callback, so the old one ends
 * when both the fiber and libmicrohttpd have finished with it.
 */
#include <string.h>

#include "core/lib/text.h"
#include "core/module/reply.h"
#include "core/server/http_txn.h"
#include "core/server/upload.h"

static char *copied(struct arena *arena, const char *text, bool *failed)
{
    char *copy = text ? arena_text(arena, text, strlen(text)) : NULL;

    *failed = *failed || (text && !copy);
    return copy;
}

/* Copies the data that the answer and its log lines need. Returns 0, or -1 if memory ran out. */
static int inherit(struct http_txn *successor, const struct http_txn *from)
{
    struct arena *arena = successor->rq.arena;
    bool failed = false;

    successor->mhd = from->mhd;
    successor->connection = from->connection;
    successor->close = from->close;
    successor->head.minor = from->head.minor;
    successor->head.closes = from->head.closes;
    successor->head.keeps = from->head.keeps;
    successor->match = from->match;
    successor->method = copied(arena, from->method, &failed);
    successor->path = copied(arena, from->path, &failed);
    successor->target = successor->path;
    memcpy(successor->id, from->id, sizeof successor->id);
    memcpy(successor->rq.trace, from->rq.trace, sizeof successor->rq.trace);
    memcpy(successor->address, from->address, sizeof successor->address);
    successor->started_us = from->started_us;
    successor->rq.id = successor->id;
    successor->rq.owner = from->rq.owner;
    successor->rq.route = from->rq.route;
    successor->rq.spent = from->rq.spent;
    successor->rq.cut = from->rq.cut;
    successor->rq.ended = from->rq.ended;
    successor->principal.account = from->principal.account;
    successor->rq.pub.principal = from->rq.pub.principal ? &successor->principal : NULL;
    for (const struct response_header *h = from->rq.response.headers; h; h = h->next)
        failed = failed || reply_header(&successor->rq, h->name, h->value);
    return failed ? -1 : 0;
}

bool http_txn_leave(struct core_request *rq)
{
    struct http_txn *txn = (struct http_txn *)(void *)rq;

    /* an answer that has begun and a committed transaction cannot be taken back */
    if (txn->phase != PHASE_HANDLER || !txn->suspended || txn->stream || txn->rq.committed)
        return false;
    struct http_txn *successor =
        request_make(sizeof *successor, REQUEST_HTTP, txn->rq.loop, txn->rq.generation);
    if (!successor)
        return false;
    if (inherit(successor, txn)) {
        http_txn_free(successor);
        return false;
    }
    successor->rq.spent.work_us += clock_mono_us() - txn->phase_us;
    request_fail(&successor->rq, FAILED_DEADLINE);
    reply_failed(&successor->rq);
    successor->phase = PHASE_ANSWER;
    txn->successor = successor;
    txn->late = true;
    txn->suspended = false;
    txn->rq.cut = NULL;
    MHD_resume_connection(txn->mhd);
    txn->mhd = NULL;
    txn->connection = NULL;
    return true;
}

static void end(struct http_txn *txn)
{
    if (txn->successor || !txn->over)
        return;
    if (txn->upload)
        upload_end(txn->upload);
    else
        http_txn_free(txn);
}

struct http_txn *http_txn_owner(struct http_txn *txn)
{
    struct http_txn *successor = txn ? txn->successor : NULL;

    if (!successor)
        return txn;
    txn->successor = NULL;
    end(txn);
    return successor;
}

void http_txn_over(struct http_txn *txn)
{
    txn->over = true;
    end(txn);
}
