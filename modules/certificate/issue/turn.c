/* Shared by the job's steps: their time limit, and the log line of a failed step. */
#include "modules/certificate/base/certificate.h"

enum { TURN_MS = 500 };

int64_t certificate_step_failed(struct bb_request *rq, const char *step)
{
    bb_log(rq, BB_WARN, "%s failed and is retried: %s", step, bb_sqlstate(rq));
    return -1;
}

int64_t certificate_turn(struct bb_request *rq)
{
    return bb_now_ms(rq->host) + TURN_MS;
}
