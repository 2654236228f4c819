/*
 * The periodic job bulk.run stores the rows of confirmed jobs in batches, each in a transaction. It
 * cancels a job if its sender may not store the rows any more.
 */
#include <stdio.h>
#include <string.h>

#include "modules/bulk/bulk.h"

enum {
    TURN_MS = 500,
    PAUSE_MS = 100,  /* maximum pause between two batches */
    LAPSED_MS = 500, /* a commit checks the sender again if the last check is older */
    SMALL_ROWS = 50  /* per batch while the host is busy; a batch then takes a few milliseconds */
};

/* The rows that one transaction stores. The pointers are invalid after the transaction. */
struct batch {
    struct bulk_job job;
    const struct bulk_type *type;
    int64_t checked_ms;             /* when the sender's permission was checked */
    struct bulk_batch all;          /* the rows */
    int64_t cleared, cleared_bytes; /* number and bytes of the deleted findings of the check */
    int64_t succeeded, failed;
    char id[BULK_ID]; /* of the job; empty: there was no job to run */
    int64_t last;     /* number of the last row; 0: no part is left */
    int64_t tried;    /* number of the row if the batch has only one; otherwise 0 */
    bool single;      /* each batch has one row, because the database refuses one of the rows */
    bool lapsed;      /* the sender lost permission, so the batch is not stored */
};

/* One run of bulk.run. */
struct bulk_turn {
    const char *types;     /* JSON array of the loaded types */
    bool small;            /* small batches, because requests keep the host busy */
    char refused[BULK_ID]; /* id of the job whose row the database refuses */
    int64_t refused_row;
    struct batch batch; /* the current batch, or the last one */
};

/*
 * Returns NULL if the sender of the job may store its rows now, otherwise the reason why not: the
 * sender was suspended, or has lost the role or organization. A job from `busbar bulk import` has
 * no account, and may always store its rows.
 */
static const char *run_lapsed(struct bb_request *rq, struct batch *batch)
{
    const struct bulk_job *job = &batch->job;
    struct bb_service found = bb_service(rq->host, "accounts");
    const struct bb_accounts *accounts = found.interface;
    struct bb_account_scope scope = {.size = sizeof(scope)};

    batch->checked_ms = bb_now_ms(rq->host);
    if (!accounts || !job->account)
        return NULL;
    int known = accounts->scope_of(found.state, rq, job->account, &scope);

    if (known < 0)
        bb_end(rq, bb_failed(rq));
    bool acts = scope.role == BB_ROLE_ADMIN;

    for (size_t i = 0; i < scope.organization_count; i++)
        acts = acts || scope.organizations[i] == job->organization;
    if (!known || !scope.active)
        return BULK_ENDED;
    if (!(batch->type->rows->roles & scope.role))
        return BULK_ROLE_LOST;
    return acts ? NULL : BULK_ORGANIZATION_LOST;
}

/*
 * Reads the rows of the batch: as many parts as the type's `store` accepts in one call, or fewer
 * rows of one part. Deletes the findings of the check, because `store` will report findings again.
 */
static void run_read(struct bb_request *rq, struct bb_tx *tx, struct bulk_turn *turn)
{
    /* $1 job, $2 cursor, $3 number of parts */
    static const struct bb_sql find = {
        "SELECT first_row, last_row, failed, bytes FROM bulk_part WHERE job = $1::uuid"
        " AND last_row > $2::bigint ORDER BY last_row LIMIT $3::bigint",
        0,
    };
    /* $1 job; the rows $2 + 1 to $3 */
    static const struct bb_sql forget = {
        "WITH gone AS (DELETE FROM bulk_finding WHERE job = $1::uuid AND number > $2::bigint"
        " AND number <= $3::bigint RETURNING octet_length(problems) AS bytes)"
        " SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone",
        BB_SQL_WRITE,
    };
    struct batch *batch = &turn->batch;
    const struct bulk_job *job = &batch->job;
    const struct bulk_columns *columns = bulk_job_columns(rq, job);
    size_t parts = batch->type->rows_max / BULK_PART_ROWS, most = BULK_PART_ROWS;
    bool doubtful = false;

    if (batch->single)
        most = 1;
    else if (turn->small && !batch->type->together)
        most = SMALL_ROWS;
    if (most < BULK_PART_ROWS || !parts)
        parts = 1;
    const struct bb_rows *rows = bb_tx_query_or_end(
        rq, tx, &find, BB_ARGS(bb_t(job->id), bb_i(job->cursor), bb_i((int64_t)parts)));

    batch->all = (struct bulk_batch){
        .type = batch->type,
        .rows = bb_alloc(rq, (bb_count(rq, rows) * most + 1) * sizeof(struct bb_bulk_row *))};
    for (size_t i = 0; i < bb_count(rq, rows); i++) {
        const struct bulk_batch *read = bulk_batch_of(
            rq, columns, bb_cell(rq, rows, i, 3), bb_cell_int(rq, rows, i, 0), job->cursor, most);

        for (size_t k = 0; k < read->count; k++)
            batch->all.rows[batch->all.count++] = read->rows[k];
        batch->last =
            read->count == most ? read->rows[most - 1]->number : bb_cell_int(rq, rows, i, 1);
        doubtful = doubtful || bb_cell_int(rq, rows, i, 2);
    }
    if (!doubtful)
        return;
    rows = bb_tx_query_or_end(rq, tx, &forget,
                              BB_ARGS(bb_t(job->id), bb_i(job->cursor), bb_i(batch->last)));
    batch->cleared = bb_cell_int(rq, rows, 0, 0);
    batch->cleared_bytes = bb_cell_int(rq, rows, 0, 1);
}

/* Stores the findings and the counts of stored and failed rows, and moves the cursor. */
static void run_save(struct bb_request *rq, struct bb_tx *tx, struct batch *batch)
{
    /* $1 job, $2 cursor, $3 succeeded, $4 failed, $5 findings, $6 change of `bytes` */
    static const struct bb_sql note = {
        "WITH found AS (INSERT INTO bulk_finding (job, number, name, problems)"
        " SELECT $1::uuid, f.number, f.name, f.problems"
        " FROM json_to_recordset($5::json) AS f (number bigint, name text, problems text))"
        " UPDATE bulk_job SET cursor = $2::bigint, succeeded = succeeded + $3::int,"
        " failed = failed + $4::int, bytes = bytes + $6::bigint, served_at = clock_timestamp(),"
        " retry_at = NULL WHERE id = $1::uuid",
        BB_SQL_WRITE,
    };
    /* $1 job; the parts with the rows $2 + 1 to $3. The conditions use the key (job, last_row). */
    static const struct bb_sql recount = {
        "UPDATE bulk_part p SET failed = (SELECT count(*) FROM bulk_finding f WHERE f.job = p.job"
        " AND f.number BETWEEN p.first_row AND p.last_row) WHERE p.job = $1::uuid"
        " AND p.last_row > $2::bigint AND p.last_row <= (SELECT min(l.last_row) FROM bulk_part l"
        " WHERE l.job = $1::uuid AND l.last_row >= $3::bigint)",
        BB_SQL_WRITE,
    };
    struct bulk_job *job = &batch->job;
    const char *findings = bulk_findings_json(rq, &batch->all, false, &batch->failed);
    int64_t more = (batch->failed ? (int64_t)strlen(findings) : 0) - batch->cleared_bytes;

    batch->succeeded = (int64_t)batch->all.count - batch->failed;
    job->succeeded += batch->succeeded;
    job->failed += batch->failed;
    bb_tx_query_or_end(rq, tx, &note,
                       BB_ARGS(bb_t(job->id), bb_i(batch->last), bb_i(batch->succeeded),
                               bb_i(batch->failed), bb_t(findings), bb_i(more)));
    if (batch->failed || batch->cleared)
        bb_tx_query_or_end(rq, tx, &recount,
                           BB_ARGS(bb_t(job->id), bb_i(job->cursor), bb_i(batch->last)));
}

static void run_count(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct batch *batch = arg;
    const struct bulk_job *job = &batch->job;

    (void)tx;
    bb_metric_add(rq->host, BULK_METRIC_ROWS, BULK_SUCCEEDED, (uint64_t)batch->succeeded);
    bb_metric_add(rq->host, BULK_METRIC_ROWS, BULK_FAILED, (uint64_t)batch->failed);
    if (!strcmp(job->status, "finished")) {
        bb_metric_add(rq->host, BULK_METRIC_JOBS, BULK_FINISHED, 1);
        bb_log(rq, BB_INFO, "bulk upload %s has finished: %lld rows were stored, %lld failed",
               job->id, (long long)job->succeeded, (long long)job->failed);
    }
}

/* Stores the rows that were read, and their outcomes. */
static int run_store(struct bb_request *rq, struct bb_tx *tx, struct bulk_turn *turn)
{
    static const struct bb_sql end = {
        "UPDATE bulk_job SET status = 'finished', ended_at = now() WHERE id = $1::uuid",
        BB_SQL_WRITE,
    };
    struct batch *batch = &turn->batch;
    struct bulk_job *job = &batch->job;
    const struct bulk_batch *all = &batch->all;

    batch->tried = all->count == 1 ? all->rows[0]->number : 0;
    if (batch->tried && batch->tried == turn->refused_row && !strcmp(turn->refused, job->id))
        bb_bulk_problem(rq, all->rows[0], "", "cannot be stored: the database refuses it");
    else if (bulk_call(rq, tx, all, job))
        return bb_failed(rq);
    if (bb_now_ms(rq->host) - batch->checked_ms > LAPSED_MS) {
        const char *reason = run_lapsed(rq, batch);

        batch->lapsed = reason != NULL; /* the next run_claim() cancels the job */
        if (reason)
            return bb_fail_text(rq, 409, reason);
    }
    if (batch->last)
        run_save(rq, tx, batch);
    bb_after(rq, tx, run_count, batch);
    if (bulk_done(job) < job->rows && batch->last)
        return 200;
    job->status = "finished";
    bb_tx_query_or_end(rq, tx, &end, BB_ARGS(bb_t(job->id)));
    bulk_emit_finished(rq, tx, job);
    return 200;
}

/* Skips jobs whose type no loaded module provides; these jobs wait. */
#define LOADED "IN (SELECT json_array_elements_text($1::json))"

static int run_claim(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    /* $1 JSON array of the loaded types */
    static const struct bb_sql claim = {
        "SELECT " BULK_JOB BULK_JOB_HEADER " FROM bulk_job j WHERE j.status = 'confirmed'"
        " AND j.type " LOADED " AND (j.retry_at IS NULL OR j.retry_at <= now())"
        " AND NOT EXISTS (SELECT FROM bulk_job o WHERE o.status = 'confirmed'"
        " AND o.organisation = j.organisation AND o.retry_at IS NULL AND o.type " LOADED
        " AND (o.confirmed_at, o.id) < (j.confirmed_at, j.id))"
        /* the organization that has waited longest since its last batch, or else its confirmation
         */
        " ORDER BY greatest(j.confirmed_at, (SELECT max(s.served_at) FROM bulk_job s"
        " WHERE s.organisation = j.organisation AND coalesce(s.ended_at, s.confirmed_at,"
        " s.created_at) >= j.confirmed_at)) LIMIT 1 FOR UPDATE OF j SKIP LOCKED",
        BB_SQL_WRITE,
    };
    /* $1 job, $2 reason */
    static const struct bb_sql lapse = {
        "UPDATE bulk_job SET status = 'cancelled', ended_at = now(), reason = $2"
        " WHERE id = $1::uuid",
        BB_SQL_WRITE,
    };
    struct bulk_turn *turn = arg;
    struct batch *batch = &turn->batch;
    struct bulk_job *job = &batch->job;
    const struct bb_rows *jobs = bb_tx_query_or_end(rq, tx, &claim, BB_ARGS(bb_t(turn->types)));

    if (!bb_count(rq, jobs))
        return 200;
    *job = bulk_job_of(rq, jobs, 0, true);
    batch->type = bulk_type_named(rq->state, job->type);
    batch->single = job->cursor < job->single;
    snprintf(batch->id, sizeof(batch->id), "%s", job->id);
    const char *reason = run_lapsed(rq, batch);

    if (reason) {
        bb_tx_query_or_end(rq, tx, &lapse, BB_ARGS(bb_t(job->id), bb_t(reason)));
        bulk_end_cancelled(rq, tx, job->id, job);
        return 200;
    }
    if (!job->cursor)
        bb_log(rq, BB_INFO, "bulk upload %s begins: %lld rows of type %s", job->id,
               (long long)job->rows, job->type);
    run_read(rq, tx, turn);
    return run_store(rq, tx, turn);
}

static int run_transaction(struct bb_request *rq, void *arg)
{
    struct bulk_turn *turn = arg;

    memset(&turn->batch, 0, sizeof(turn->batch));
    return bb_transaction(rq, run_claim, turn);
}

/* Decides what follows a batch that has just failed. Returns whether to continue at once. */
static bool run_can_go_on(struct bb_request *rq, struct bulk_turn *turn)
{
    /* To find the refused row, the batches up to row $2 get one row each. */
    static const struct bb_sql one_by_one = {
        "UPDATE bulk_job SET single = greatest(single, $2::bigint) WHERE id = $1::uuid",
        BB_SQL_WRITE,
    };
    static const struct bb_sql wait_a_while = {
        "UPDATE bulk_job SET retry_at = now() + interval '10 s' WHERE id = $1::uuid"
        " AND status = 'confirmed'",
        BB_SQL_WRITE,
    };
    const struct batch *batch = &turn->batch;
    const char *sqlstate = bb_sqlstate(rq);
    /* SQLSTATE classes: invalid data, violated constraint, and errors that statements raise. */
    bool blames_rows =
        !strncmp(sqlstate, "22", 2) || !strncmp(sqlstate, "23", 2) || !strncmp(sqlstate, "BB", 2);

    if (!batch->id[0] || batch->lapsed)
        return batch->lapsed;
    if (blames_rows && batch->tried) {
        memcpy(turn->refused, batch->id, sizeof(turn->refused));
        turn->refused_row = batch->tried;
        return true;
    }
    if (blames_rows)
        return bb_query(rq, &one_by_one, BB_ARGS(bb_t(batch->id), bb_i(batch->last))) != NULL;
    bb_log(rq, BB_WARN, "a batch of bulk upload %s failed and is retried: %s", batch->id, sqlstate);
    (void)bb_query(rq, &wait_a_while, BB_ARGS(bb_t(batch->id)));
    return false;
}

void bulk_run(struct bb_request *rq)
{
    static const struct bb_sql count = {
        "SELECT coalesce(sum(rows - succeeded - failed), 0)::bigint, count(*)"
        " FROM bulk_job WHERE status = 'confirmed'",
        0,
    };
    struct bulk *bulk = rq->state;
    struct bulk_turn *turn = bb_alloc(rq, sizeof(*turn));
    int64_t until = bb_now_ms(rq->host) + TURN_MS;
    const struct bb_rows *rows = bb_query(rq, &count, BB_NO_ARGS);
    bool more = rows && bb_cell_int(rq, rows, 0, 1) > 0;
    struct bb_pace pace = {.busy = atomic_load(&bulk->busy)};
    json_t *types = bb_hold(rq, json_array());

    if (rows)
        atomic_store(&bulk->waiting, bb_cell_int(rq, rows, 0, 0));
    for (size_t i = 0; i < bulk->type_count; i++)
        bb_push(rq, types, json_string(bulk->types[i].name));
    turn->types = bb_json(rq, types, NULL);
    turn->small = bb_pace(rq, &pace, PAUSE_MS);
    while (more && bb_now_ms(rq->host) < until) {
        more = bb_scratch(rq, run_transaction, turn) < 400 || run_can_go_on(rq, turn);
        more = more && turn->batch.id[0];
        turn->small = bb_pace(rq, &pace, PAUSE_MS);
    }
    atomic_store(&bulk->busy, pace.busy);
    if (more)
        bb_again(rq);
}

void bulk_begin_run(struct bb_request *rq, void *unused)
{
    (void)unused;
    bulk_run(rq);
}
