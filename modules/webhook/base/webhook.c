/* Secrets, and the outcome of a test, shared by the API and the sender. */
#include "modules/webhook/base/webhook.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * ---- secrets: sealed under the webhook's id, and opened ----
 *
 * Secrets are never logged. This module wipes a plain secret from its own memory; the host owns the
 * response that shows the secret once.
 */

static void webhook_purpose(int64_t webhook, const char *part, char purpose[64])
{
    snprintf(purpose, 64, "webhook:%lld%s%s", (long long)webhook, *part ? ":" : "", part);
}

int webhook_secret_seal(struct bb_host *host, int64_t webhook, const char *part, const char *secret,
                        unsigned char **sealed, size_t *length)
{
    char purpose[64];

    webhook_purpose(webhook, part, purpose);
    return bb_seal(host, secret, strlen(secret), purpose, sealed, length);
}

int webhook_secret_open(struct bb_host *host, int64_t webhook, const char *part, const char *cell,
                        char **secret)
{
    size_t room = cell ? strlen(cell) / 2 : 0, plain_length;
    unsigned char *sealed = malloc(room + 1), *plain = NULL;
    char purpose[64];

    *secret = NULL;
    if (!sealed)
        return SECRET_NO_MEMORY;
    webhook_purpose(webhook, part, purpose);
    int64_t length = bb_cell_bytes(cell, sealed, room);
    int failed =
        length < 0 ? -1 : bb_unseal(host, sealed, (size_t)length, purpose, &plain, &plain_length);

    free(sealed);
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
