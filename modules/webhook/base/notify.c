/* What changed, told to all hosts: the channel "webhook". On the fiber of a request. */
#include "modules/webhook/base/webhook.h"

int webhook_notify(struct bb_request *rq, struct bb_tx *tx, const char *payload)
{
    static const struct bb_sql notify = {"SELECT pg_notify('" WEBHOOK_CHANNEL "', $1::text)", 0};

    return bb_add(rq, tx, &notify, BB_ARGS(bb_t(payload))) < 0 ? -1 : 0;
}

#define QUEUED "queued:0" /* of any webhook */

void webhook_tell_queued(struct bb_request *rq)
{
    static const struct bb_sql tell = {"SELECT pg_notify('" WEBHOOK_CHANNEL "', '" QUEUED "')",
                                       BB_SQL_WRITE};

    if (!bb_query(rq, &tell, BB_NO_ARGS))
        bb_log(rq, BB_DEBUG, "other senders were not told of what waits");
}

int webhook_notify_queued(struct bb_request *rq, struct bb_tx *tx)
{
    return webhook_notify(rq, tx, QUEUED);
}
