/* Notifies all hosts of changes, on the channel "webhook". Runs on the fiber of a request. */
#include "modules/webhook/base/webhook.h"

#define QUEUED "queued:0" /* of any webhook */

void webhook_tell_queued(struct bb_request *rq)
{
    if (bb_notify(rq, NULL, WEBHOOK_CHANNEL, QUEUED))
        bb_log(rq, BB_DEBUG, "cannot notify other senders of queued deliveries");
}

int webhook_notify_queued(struct bb_request *rq, struct bb_tx *tx)
{
    return bb_notify(rq, tx, WEBHOOK_CHANNEL, QUEUED);
}
