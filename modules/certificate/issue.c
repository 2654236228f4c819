/*
 * The job certificate.issue, and the command that runs it now. Steps that fail are in the log, and
 * are tried again by the next run.
 */
#include "certificate.h"

int64_t certificate_step_failed(struct bb_request *rq, const char *step)
{
    bb_log(rq, BB_WARN, "%s failed, and is tried again: %s", step, bb_sqlstate(rq));
    return -1;
}

struct work {
    int64_t histories, cycles, settled;
};

static int run(struct bb_request *rq, struct work *work)
{
    work->histories = certificate_history(rq);
    int64_t folded = certificate_fold(rq);

    work->cycles = certificate_cycles(rq);
    work->settled = certificate_settle(rq);
    return work->histories < 0 || folded < 0 || work->cycles < 0 || work->settled < 0 ? -1 : 0;
}

void certificate_issue(struct bb_request *rq)
{
    struct work work;

    if (run(rq, &work) == 0 && (work.histories || work.cycles))
        bb_log(rq, BB_INFO, "%lld cycles were issued, and History of %lld devices",
               (long long)work.cycles, (long long)work.histories);
}

int certificate_command_issue(struct bb_request *rq)
{
    struct work work;
    int failed = run(rq, &work);

    bb_print(rq, "cycles looked at: %lld; devices with new History readings: %lld\n",
             (long long)work.cycles, (long long)work.histories);
    return failed ? 1 : 0;
}
