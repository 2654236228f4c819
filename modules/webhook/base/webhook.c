/* Secrets of webhooks, and requests that wait for events or for the result of a test. */
#include "modules/webhook/base/webhook.h"

#include <busbar/lock.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * ---- secrets ----
 *
 * Secrets are never logged. This module wipes a plain secret from its own memory; the host owns the
 * response that shows the secret once.
 */

/* The purpose of the part "secret" omits the part's name, because older versions omitted it. */
void webhook_purpose(int64_t webhook, const char *part, char purpose[64])
{
    bool named = strcmp(part, WEBHOOK_PART_SECRET) != 0;

    snprintf(purpose, 64, "webhook:%lld%s%s", (long long)webhook, named ? ":" : "",
             named ? part : "");
}

char *webhook_secret_open(struct bb_request *rq, int64_t webhook, const char *part,
                          const char *cell)
{
    size_t room = strlen(cell) / 2, plain_length;
    unsigned char *sealed = bb_alloc(rq, room + 1), *plain = NULL;
    char purpose[64];

    webhook_purpose(webhook, part, purpose);
    int64_t length = bb_cell_bytes(cell, sealed, room);

    if (length >= 0 &&
        bb_unseal(rq->host, sealed, (size_t)length, purpose, &plain, &plain_length) == -2)
        bb_alloc(rq, SIZE_MAX); /* fails, which ends the request */
    return (char *)plain;
}

void webhook_secret_free(void *secret)
{
    if (secret)
        OPENSSL_cleanse(secret, strlen(secret));
    free(secret);
}

/* ---- requests that wait ---- */

struct waiters {
    struct bb_host *host;
    pthread_mutex_t lock;
    LIST_HEAD(, waiter) list;
    bool ended;
};

struct waiters *waiters_new(struct bb_host *host)
{
    struct waiters *waiters = bb_host_alloc(host, sizeof(*waiters));

    if (!waiters || pthread_mutex_init(&waiters->lock, NULL))
        return NULL;
    waiters->host = host;
    LIST_INIT(&waiters->list);
    return waiters;
}

void waiters_free(struct waiters *waiters)
{
    if (waiters)
        pthread_mutex_destroy(&waiters->lock);
}

/* Call with the lock held. */
static void waiter_signal(struct waiter *waiter)
{
    if (waiter->completion)
        bb_completion_signal(waiter->waiters->host, waiter->completion);
    waiter->completion = NULL;
}

static void waiter_leave(void *arg)
{
    struct waiter *waiter = arg;

    BB_LOCKED(&waiter->waiters->lock);
    LIST_REMOVE(waiter, link);
    waiter_signal(waiter);
}

struct waiter *waiter_add(struct bb_request *rq, struct waiters *waiters, int64_t id, bool test)
{
    struct waiter *waiter = bb_alloc(rq, sizeof(*waiter));

    waiter->waiters = waiters;
    waiter->account = rq->principal->account;
    waiter->id = id;
    waiter->test = test;
    pthread_mutex_lock(&waiters->lock);
    LIST_INSERT_HEAD(&waiters->list, waiter, link);
    pthread_mutex_unlock(&waiters->lock);
    bb_defer(rq, waiter_leave, waiter);
    return waiter;
}

struct bb_completion *waiter_next(struct bb_request *rq, struct waiter *waiter)
{
    struct waiters *waiters = waiter->waiters;
    struct bb_completion *completion = bb_completion(rq);

    BB_LOCKED(&waiters->lock);
    waiter_signal(waiter); /* the previous completion: the request no longer waits for it */
    waiter->completion = completion;
    return waiters->ended && !waiter->test ? NULL : completion;
}

void waiters_wake(struct waiters *waiters, int64_t webhook)
{
    struct waiter *at;

    BB_LOCKED(&waiters->lock);
    LIST_FOREACH (at, &waiters->list, link)
        if (!at->test && (!webhook || at->id == webhook))
            waiter_signal(at);
}

void waiters_access_changed(struct waiters *waiters, int64_t account)
{
    struct waiter *at;

    BB_LOCKED(&waiters->lock);
    LIST_FOREACH (at, &waiters->list, link)
        if (!at->test && (!account || at->account == account)) {
            atomic_store(&at->revoked, true);
            waiter_signal(at);
        }
}

void waiters_end(struct waiters *waiters)
{
    pthread_mutex_lock(&waiters->lock);
    waiters->ended = true;
    pthread_mutex_unlock(&waiters->lock);
    waiters_wake(waiters, 0);
}

void waiters_report(struct waiters *waiters, int64_t delivery, bool delivered, int status,
                    int64_t duration_ms, const char *error)
{
    struct waiter *at;

    BB_LOCKED(&waiters->lock);
    LIST_FOREACH (at, &waiters->list, link)
        if (at->test && at->id == delivery && at->completion)
            break;
    if (at) {
        at->delivered = delivered;
        at->status = status;
        at->duration_ms = duration_ms;
        snprintf(at->error, sizeof(at->error), "%s", error ? error : "");
        waiter_signal(at);
    }
}
