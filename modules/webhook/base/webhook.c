/* Secrets, and the outcome of a test, shared by the API and the sender. */
#include "modules/webhook/base/webhook.h"

#include <stdio.h>
#include <string.h>

/*
 * ---- secrets: sealed under the webhook's id, and opened ----
 *
 * Secrets are never logged. This module wipes a plain secret from its own memory; the host owns the
 * response that shows the secret once.
 */

#define SEALED_MAX (4 * WEBHOOK_SECRET_MAX + 256) /* bytes of a sealed secret */

static void webhook_purpose(int64_t webhook, char purpose[32])
{
    snprintf(purpose, 32, "webhook:%lld", (long long)webhook);
}

int webhook_secret_seal(struct bb_host *host, int64_t webhook, const char *secret,
                        unsigned char **sealed, size_t *length)
{
    char purpose[32];

    webhook_purpose(webhook, purpose);
    return bb_seal(host, secret, strlen(secret), purpose, sealed, length);
}

int webhook_secret_open(struct bb_host *host, int64_t webhook, const char *cell, char **secret)
{
    unsigned char sealed[SEALED_MAX], *plain = NULL;
    char purpose[32];
    size_t plain_length;

    *secret = NULL;
    if (!cell || strlen(cell) / 2 > sizeof sealed)
        return SECRET_LOCKED;
    webhook_purpose(webhook, purpose);
    int64_t length = bb_cell_bytes(cell, sealed, sizeof sealed);
    int failed =
        length < 0 ? -1 : bb_unseal(host, sealed, (size_t)length, purpose, &plain, &plain_length);

    if (failed)
        return failed == -2 ? SECRET_NO_MEMORY : SECRET_LOCKED;
    *secret = (char *)plain;
    return SECRET_OPEN;
}

/* ---- the outcome of a test: freed by the request or the sender, whichever ends last ---- */

struct webhook_outcome *webhook_outcome_new(struct bb_request *rq)
{
    struct webhook_outcome *outcome = calloc(1, sizeof(*outcome));

    if (!outcome)
        return NULL;
    outcome->host = rq->host;
    outcome->completion = bb_completion(rq);
    if (!outcome->completion) {
        free(outcome);
        return NULL;
    }
    atomic_init(&outcome->holders, 2);
    return outcome;
}

void webhook_outcome_release(void *arg)
{
    struct webhook_outcome *outcome = arg;

    if (atomic_fetch_sub(&outcome->holders, 1) == 1)
        free(outcome);
}

void webhook_outcome_say(struct webhook_outcome *outcome, bool delivered, int status,
                         int64_t duration_ms, const char *error)
{
    outcome->delivered = delivered;
    outcome->status = status;
    outcome->duration_ms = duration_ms;
    snprintf(outcome->error, sizeof(outcome->error), "%s", error ? error : "");
    bb_completion_signal(outcome->host, outcome->completion);
    webhook_outcome_release(outcome);
}
