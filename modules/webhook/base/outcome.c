/*
 * The outcome of a test, shared by the request and the sender's thread; the last of the two frees
 * it.
 */
#include "modules/webhook/base/webhook.h"

#include <stdio.h>

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
