/*
 * The job certificate.issue, and the command that runs it at once. A step that fails is logged, and
 * the next run tries it again.
 */
#include "modules/certificate/certificate.h"

enum { TURN_MS = 500 };                 /* the time limit of a step */
enum { FAILED = 1, INTERRUPTED = 130 }; /* exit statuses; 130 is what shells report for SIGINT */
enum { FINALIZED = 2000 };              /* entries per statement */

int64_t certificate_step_failed(struct bb_request *rq, const char *step)
{
    bb_log(rq, BB_WARN, "%s failed and is retried: %s", step, bb_sqlstate(rq));
    return -1;
}

int64_t certificate_turn(struct bb_request *rq)
{
    return bb_now_ms(rq->host) + TURN_MS;
}

int certificate_note(struct bb_request *rq, const struct bb_sql *sql, int64_t size,
                     const char *step, bool *any)
{
    *any = false;
    for (int64_t count = size; count == size;) {
        const struct bb_rows *rows = bb_query(rq, sql, BB_ARGS(bb_i(size)));

        if (!rows)
            return (int)certificate_step_failed(rq, step);
        count = bb_cell_int(rq, rows, 0, 0);
        *any = *any || count || bb_cell_int(rq, rows, 0, 1);
    }
    return 0;
}

int certificate_emit(struct bb_request *rq, struct bb_tx *tx,
                     const struct certificate_issued *issued)
{
    struct bb_audience audience = {.size = sizeof(audience), .organization = issued->organization};

    return bb_emit(rq, tx, "certificate.issued",
                   json_pack("{s:s, s:I, s:o, s:s, s:s, s:I, s:I}", "certificateTransactionUID",
                             issued->uid, "organizationId", (json_int_t)issued->organization,
                             "groupId", issued->group ? json_integer(issued->group) : json_null(),
                             "certificate_issuance_start", issued->start,
                             "certificate_issuance_end", issued->end, "issued_watthour",
                             (json_int_t)issued->wh, "entries", (json_int_t)issued->entries),
                   &audience);
}

/*
 * If certificate.issuer is `internal`, there is no external issuer to wait for, so entries that
 * were requested while the issuer was external become Succeeded.
 *
 * $1 number of entries, $2 and $3 start and id of the last entry of the previous batch. Skips
 * entries that another run has locked, instead of waiting for it. IS TRUE makes PostgreSQL look the
 * ids up in a hash table. A join might be planned badly from old statistics.
 */
static const struct bb_sql finalize = {
    "WITH taken AS MATERIALIZED (SELECT start_at, id FROM certificate_entry"
    " WHERE status = 'Requested' AND (start_at, id) > ($2::timestamptz, $3::bigint)"
    " ORDER BY start_at, id LIMIT $1::int FOR UPDATE SKIP LOCKED),"
    " last AS (SELECT start_at, id FROM taken ORDER BY start_at DESC, id DESC LIMIT 1),"
    " moved AS (UPDATE certificate_entry SET status = 'Succeeded' WHERE status = 'Requested'"
    " AND (start_at, id) > ($2::timestamptz, $3::bigint)"
    " AND (start_at, id) <= ((SELECT start_at FROM last), (SELECT id FROM last))"
    " AND (id IN (SELECT id FROM taken)) IS TRUE)"
    " SELECT start_at::text, id, (SELECT count(*) FROM taken) FROM last",
    BB_SQL_WRITE | BB_SQL_LONG};

static int64_t issue_finalize(struct bb_request *rq, bool *more)
{
    const struct certificate *certificate = rq->state;
    int64_t done = 0, count = certificate->internal, until = certificate_turn(rq), last = 0;
    const char *at = "-infinity";

    while (count > 0 && bb_now_ms(rq->host) < until) {
        const struct bb_rows *rows =
            bb_query(rq, &finalize, BB_ARGS(bb_i(FINALIZED), bb_t(at), bb_i(last)));

        if (!rows)
            return certificate_step_failed(rq, "finalizing certificates");
        count = 0;
        if (bb_count(rq, rows)) {
            at = bb_cell(rq, rows, 0, 0);
            last = bb_cell_int(rq, rows, 0, 1);
            count = bb_cell_int(rq, rows, 0, 2);
        }
        done += count;
    }
    *more = count > 0;
    return done;
}

enum { HISTORIES, DUE, CHANGED, CYCLES, OLDER, STEPS };

struct work {
    int64_t done[STEPS]; /* what each step returned */
    bool failed;         /* a step failed */
    bool more;           /* work is left for another run */
};

/* Runs all steps. Each step stops at its time limit, so that the next step can run, too. */
static void issue_run(struct bb_request *rq, struct work *work)
{
    static int64_t (*const steps[STEPS])(struct bb_request *, bool *) = {
        [HISTORIES] = certificate_history, [DUE] = certificate_mark_due,
        [CHANGED] = certificate_recheck,   [CYCLES] = certificate_cycles,
        [OLDER] = issue_finalize,
    };

    *work = (struct work){.failed = false};
    for (int i = 0; i < STEPS; i++) {
        bool more = false;

        work->done[i] = steps[i](rq, &more);
        work->more = work->more || more;
        work->failed = work->failed || work->done[i] < 0;
    }
}

/* Runs again if work is left. Between two runs, other work can use the database connection. */
void certificate_issue(struct bb_request *rq)
{
    struct work work;

    issue_run(rq, &work);
    if (work.more)
        bb_again(rq);
    if (!work.failed && (work.done[HISTORIES] || work.done[CYCLES]))
        bb_log(rq, BB_INFO, "%lld cycles and %lld History readings were issued",
               (long long)work.done[CYCLES], (long long)work.done[HISTORIES]);
}

/* An interrupt ends the command between two runs. The job does the remaining work. */
int certificate_command_issue(struct bb_request *rq)
{
    struct work work = {.more = true};
    int64_t cycles = 0, histories = 0;
    bool failed = false;

    while (work.more && !bb_superseded(rq->host)) {
        issue_run(rq, &work);
        failed = failed || work.failed;
        cycles += work.done[CYCLES] > 0 ? work.done[CYCLES] : 0;
        histories += work.done[HISTORIES] > 0 ? work.done[HISTORIES] : 0;
    }
    bb_print(rq, "cycles examined: %lld; History readings issued: %lld\n", (long long)cycles,
             (long long)histories);
    if (!work.more)
        return failed ? FAILED : 0;
    bb_print(rq, "interrupted: the job issues the rest\n");
    return INTERRUPTED;
}
