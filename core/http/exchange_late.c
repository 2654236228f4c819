/*
 * A call in a pool that is still under way when the time of its request is over. It may use memory
 * of the request, so the exchange stays until it has returned; the client does not wait for that.
 * A successor, an exchange without a handler, has the connection from then on, and answers 503.
 *
 * libmicrohttpd knows the old exchange until it calls the next time, so that ends when both are
 * done with it: the fiber, and libmicrohttpd.
 */
#include <string.h>

#include "core/base/text.h"
#include "core/http/exchange.h"
#include "core/http/upload.h"
#include "core/request/reply.h"

static char *copied(struct arena *arena, const char *text, bool *failed)
{
    char *copy = text ? arena_text(arena, text, strlen(text)) : NULL;

    *failed = *failed || (text && !copy);
    return copy;
}

/* What its answer and its lines in the log need; 0, or -1: no memory. */
static int inherit(struct exchange *successor, const struct exchange *from)
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
    for (const struct answer_header *h = from->rq.answer.headers; h; h = h->next)
        failed = failed || reply_header(&successor->rq, h->name, h->value);
    return failed ? -1 : 0;
}

bool exchange_leave(struct core_request *rq)
{
    struct exchange *exchange = (struct exchange *)(void *)rq;

    /* what has begun to be sent, or is true in the database, is not taken back */
    if (exchange->phase != PHASE_HANDLER || !exchange->suspended || exchange->stream ||
        exchange->rq.committed)
        return false;
    struct exchange *successor =
        request_make(sizeof *successor, REQUEST_HTTP, exchange->rq.loop, exchange->rq.generation);
    if (!successor)
        return false;
    if (inherit(successor, exchange)) {
        exchange_free(successor);
        return false;
    }
    successor->rq.spent.work_us += clock_mono_us() - exchange->phase_us;
    request_fail(&successor->rq, FAILED_DEADLINE);
    reply_failed(&successor->rq);
    successor->phase = PHASE_ANSWER;
    exchange->successor = successor;
    exchange->late = true;
    exchange->suspended = false;
    exchange->rq.cut = NULL;
    MHD_resume_connection(exchange->mhd);
    exchange->mhd = NULL;
    exchange->connection = NULL;
    return true;
}

static void end(struct exchange *exchange)
{
    if (exchange->successor || !exchange->over)
        return;
    if (exchange->upload)
        upload_end(exchange->upload);
    else
        exchange_free(exchange);
}

struct exchange *exchange_owner(struct exchange *exchange)
{
    struct exchange *successor = exchange ? exchange->successor : NULL;

    if (!successor)
        return exchange;
    exchange->successor = NULL;
    end(exchange);
    return successor;
}

void exchange_over(struct exchange *exchange)
{
    exchange->over = true;
    end(exchange);
}
