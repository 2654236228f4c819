/*
 * A call in a pool that is still under way when the time of its request is over. It may use memory
 * of the request, so the exchange stays until it has returned; the client does not wait for that.
 * An heir, an exchange without a handler, has the connection from then on, and answers 503.
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
static int inherit(struct exchange *heir, const struct exchange *from)
{
    struct arena *arena = heir->rq.arena;
    bool failed = false;

    heir->mhd = from->mhd;
    heir->connection = from->connection;
    heir->close = from->close;
    heir->head.minor = from->head.minor;
    heir->head.closes = from->head.closes;
    heir->head.keeps = from->head.keeps;
    heir->match = from->match;
    heir->method = copied(arena, from->method, &failed);
    heir->path = copied(arena, from->path, &failed);
    heir->target = heir->path;
    memcpy(heir->id, from->id, sizeof heir->id);
    memcpy(heir->address, from->address, sizeof heir->address);
    heir->started_us = from->started_us;
    heir->rq.id = heir->id;
    heir->rq.owner = from->rq.owner;
    heir->rq.route = from->rq.route;
    heir->rq.spent = from->rq.spent;
    heir->rq.cut = from->rq.cut;
    heir->rq.ended = from->rq.ended;
    heir->principal.account = from->principal.account;
    heir->rq.pub.principal = from->rq.pub.principal ? &heir->principal : NULL;
    for (const struct answer_header *h = from->rq.answer.headers; h; h = h->next)
        failed = failed || reply_header(&heir->rq, h->name, h->value);
    return failed ? -1 : 0;
}

bool exchange_leave(struct core_request *rq)
{
    struct exchange *exchange = (struct exchange *)(void *)rq;

    /* what has begun to be sent, or is true in the database, is not taken back */
    if (exchange->phase != PHASE_HANDLER || !exchange->suspended || exchange->stream ||
        exchange->rq.committed)
        return false;
    struct exchange *heir =
        request_make(sizeof *heir, REQUEST_HTTP, exchange->rq.loop, exchange->rq.generation);
    if (!heir)
        return false;
    if (inherit(heir, exchange)) {
        exchange_free(heir);
        return false;
    }
    heir->rq.spent.work_us += clock_mono_us() - exchange->phase_us;
    request_fail(&heir->rq, FAILED_DEADLINE);
    reply_failed(&heir->rq);
    heir->phase = PHASE_ANSWER;
    exchange->heir = heir;
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
    if (exchange->heir || !exchange->over)
        return;
    if (exchange->upload)
        upload_end(exchange->upload);
    else
        exchange_free(exchange);
}

struct exchange *exchange_owner(struct exchange *exchange)
{
    struct exchange *heir = exchange ? exchange->heir : NULL;

    if (!heir)
        return exchange;
    exchange->heir = NULL;
    end(exchange);
    return heir;
}

void exchange_over(struct exchange *exchange)
{
    exchange->over = true;
    end(exchange);
}
