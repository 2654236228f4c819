/*
 * The job certificate.issue, and the command that runs it at once. Failed steps are logged, and are
 * tried again by the next run.
 */
#include "modules/certificate/base/certificate.h"

enum { FAILED = 1, INTERRUPTED = 130 }; /* exit statuses; 130 is what shells report for SIGINT */

struct work {
    int64_t histories, cycles, finalized; /* of a run; -1: that step failed */
    bool more;                            /* work is left that was not tried */
};

/* Each step has a time limit, so that none waits until another has nothing left to do. */
static int run(struct bb_request *rq, struct work *work)
{
    bool histories, devices, changed, cycles, certificates;

    work->histories = certificate_history(rq, &histories);
    int64_t marked = certificate_mark_due(rq, &devices);
    int64_t rechecked = certificate_recheck(rq, &changed);

    work->cycles = certificate_cycles(rq, &cycles);
    work->finalized = certificate_finalize(rq, &certificates);
    work->more = histories || devices || changed || cycles || certificates;
    return work->histories < 0 || marked < 0 || rechecked < 0 || work->cycles < 0 ||
                   work->finalized < 0
               ? -1
               : 0;
}

/* Between two runs others may use the connection, and a stop or a reload can take effect. */
void certificate_issue(struct bb_request *rq)
{
    struct work work;
    int failed = run(rq, &work);

    if (work.more)
        bb_again(rq);
    if (!failed && (work.histories || work.cycles))
        bb_log(rq, BB_INFO, "%lld cycles and %lld History readings were issued",
               (long long)work.cycles, (long long)work.histories);
}

/* An interrupt ends it between two runs; the job does the rest. */
int certificate_command_issue(struct bb_request *rq)
{
    struct work work = {.more = true};
    int64_t cycles = 0, histories = 0;
    int failed = 0;

    while (work.more && !bb_superseded(rq->host)) {
        failed |= run(rq, &work);
        cycles += work.cycles > 0 ? work.cycles : 0;
        histories += work.histories > 0 ? work.histories : 0;
    }
    bb_print(rq, "cycles looked at: %lld; History readings issued: %lld\n", (long long)cycles,
             (long long)histories);
    if (work.more)
        bb_print(rq, "interrupted: the job issues the rest\n");
    if (work.more)
        return INTERRUPTED;
    return failed ? FAILED : 0;
}
