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
    int64_t histories, cycles, settled; /* a run's; -1: that step failed */
    bool more;                          /* something is left that was not tried */
};

static int run(struct bb_request *rq, struct work *work)
{
    const struct certificate *certificate = rq->state;
    bool histories, devices;

    work->histories = certificate_history(rq, &histories);
    int64_t folded = certificate_fold(rq, &devices);

    work->cycles = certificate_cycles(rq);
    work->more = histories || devices || certificate->cycles_failed;
    work->settled = certificate_settle(rq);
    return work->histories < 0 || folded < 0 || work->cycles < 0 || work->settled < 0 ? -1 : 0;
}

void certificate_issue(struct bb_request *rq)
{
    struct work work;

    if (run(rq, &work) == 0 && (work.histories || work.cycles))
        bb_log(rq, BB_INFO, "%lld cycles and %lld History readings were issued",
               (long long)work.cycles, (long long)work.histories);
}

int certificate_command_issue(struct bb_request *rq)
{
    struct work work = {.more = true};
    int64_t cycles = 0, histories = 0;
    int failed = 0;

    while (work.more) {
        failed |= run(rq, &work);
        cycles += work.cycles > 0 ? work.cycles : 0;
        histories += work.histories > 0 ? work.histories : 0;
    }
    bb_print(rq, "cycles looked at: %lld; History readings issued: %lld\n", (long long)cycles,
             (long long)histories);
    return failed ? 1 : 0;
}
