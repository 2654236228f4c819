/*
 * The job bulk.run: stores the rows of confirmed jobs in batches, each in a transaction of its own.
 */
#include <string.h>

#include "modules/bulk/job/bulk.h"

enum { ID_SIZE = 37 };

/* One run of the job bulk.run. */
struct bulk_turn {
    const char *types;     /* JSON array of the loaded types */
    bool small;            /* small batches, because requests are waiting */
    bool idle;             /* there was no job to run */
    char id[ID_SIZE];      /* job of the batch; empty: none */
    size_t count;          /* rows of the batch */
    bool narrowed;         /* the batch was smaller because a refused row is searched */
    int64_t last;          /* last row of the batch */
    int64_t tried;         /* row of a batch with one row; 0: it had more */
    char refused[ID_SIZE]; /* job of a row that the database refuses */
    int64_t refused_row;
    char sqlstate[8]; /* why the batch failed */
    bool written; /* the batch was written; a later failure is due to the commit or its checks */
    bool lapsed;  /* the sender lost permission meanwhile: nothing of the batch is stored */
    char permitted[ID_SIZE]; /* the job whose sender was last checked, */
    int64_t permitted_ms;    /* and when */
};

static bool acts_in(const struct bb_account_scope *scope, int64_t organization)
{
    for (size_t i = 0; i < scope->organization_count; i++)
        if (scope->organizations[i] == organization)
            return true;
    return scope->role == BB_ROLE_ADMIN;
}

/*
 * Checks whether the sender of a job may store its rows now; the sender may have been suspended, or
 * may have lost the role or organization. Returns 1; 0 with *reason; or -1: `bb_failed(rq)`.
 * The operator's command has no account and is always permitted.
 */
static int is_permitted(struct bb_request *rq, const struct bulk_job *job,
                        const struct bulk_type *type, const char **reason)
{
    struct bb_service found = bb_service(rq->host, "accounts");
    const struct bb_accounts *accounts = found.interface;
    struct bb_account_scope scope = {.size = sizeof(scope)};

    if (!accounts || !job->account)
        return 1;
    int known = accounts->scope_of(found.state, rq, job->account, &scope);

    if (known < 0)
        return -1;
    if (!known || !scope.active)
        *reason = "the account that sent it is suspended or deleted";
    else if (!(type->rows->roles & scope.role))
        *reason = "the role of the account that sent it may not upload rows of this type any more";
    else if (!acts_in(&scope, job->organization))
        *reason = "the account that sent it does not act in this organization any more";
    else
        return 1;
    return 0;
}

/* ---- one batch: rows of one or more parts, stored and counted ---- */

enum {
    SMALL_ROWS = 50,    /* per batch while requests wait: a few milliseconds */
    PERMITTED_MS = 250, /* how long a check of a job's sender is valid for further batches, */
    LAPSED_MS = 500     /* and for the commit of a batch that takes long */
};

/* $1 JSON array of the loaded types. Jobs of other types wait, and no other job waits for them. */
#define LOADED "IN (SELECT json_array_elements_text($1::json))"
static const struct bb_sql claim = {
    "SELECT " BULK_JOB BULK_JOB_HEADER " FROM bulk_job j WHERE j.status = 'confirmed'"
    " AND j.type " LOADED " AND (j.retry_at IS NULL OR j.retry_at <= now())"
    " AND NOT EXISTS (SELECT FROM bulk_job o WHERE o.status = 'confirmed'"
    " AND o.organisation = j.organisation AND o.retry_at IS NULL AND o.type " LOADED
    " AND (o.confirmed_at, o.id) < (j.confirmed_at, j.id))"
    " ORDER BY j.served_at NULLS FIRST, j.confirmed_at LIMIT 1 FOR UPDATE OF j SKIP LOCKED",
    BB_SQL_WRITE,
};

/* $1 job, $2 cursor, $3 number of parts */
static const struct bb_sql parts_of = {
    "SELECT first_row, last_row, failed, bytes FROM bulk_part WHERE job = $1::uuid"
    " AND last_row > $2::bigint ORDER BY last_row LIMIT $3::bigint",
    0,
};

/* Deletes the findings of the check. $1 job, rows after $2 and up to $3 */
static const struct bb_sql forget = {
    "WITH gone AS (DELETE FROM bulk_finding WHERE job = $1::uuid AND number > $2::bigint"
    " AND number <= $3::bigint RETURNING octet_length(problems) AS bytes)"
    " SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM gone",
    BB_SQL_WRITE,
};

/*
 * $1 job, $2 cursor, $3 succeeded, $4 failed, $5 findings, $6 last row of the part, $7 change in
 * the number of findings, $8 change in their bytes
 */
static const struct bb_sql note = {
    "WITH found AS (INSERT INTO bulk_finding (job, number, name, problems)"
    " SELECT $1::uuid, f.number, f.name, f.problems"
    " FROM json_to_recordset($5::json) AS f (number bigint, name text, problems text)),"
    " part AS (UPDATE bulk_part SET failed = failed + $7::int WHERE job = $1::uuid"
    " AND last_row = $6::bigint AND $7::int <> 0)"
    " UPDATE bulk_job SET cursor = $2::bigint, succeeded = succeeded + $3::int,"
    " failed = failed + $4::int, bytes = bytes + $8::bigint, served_at = clock_timestamp(),"
    " retry_at = NULL WHERE id = $1::uuid",
    BB_SQL_WRITE,
};

/* $1 job, $2 reason */
static const struct bb_sql lapse = {
    "UPDATE bulk_job SET status = 'cancelled', ended_at = now(), reason = $2 WHERE id = $1::uuid",
    BB_SQL_WRITE,
};

static const struct bb_sql end = {
    "UPDATE bulk_job SET status = 'finished', ended_at = now() WHERE id = $1::uuid",
    BB_SQL_WRITE,
};

/* The rows of a batch that belong to one part. */
struct part {
    int64_t last, cursor; /* the part's last row, and the row up to which this batch completes it */
    int64_t before;       /* deleted findings of the check, */
    int64_t before_bytes; /* and their bytes */
    const struct bulk_batch *rows;
};

struct batch {
    struct bulk_turn *turn;
    struct bulk_job job;
    const struct bulk_type *type;
    size_t most; /* rows of the first part */
    struct part *parts;
    size_t part_count;
    int64_t succeeded, failed;
};

/* Records why the last statement or commit failed. */
static void note_why(struct bb_request *rq, struct bulk_turn *turn)
{
    strncpy(turn->sqlstate, bb_sqlstate(rq), sizeof(turn->sqlstate) - 1);
}

static int failed(struct bb_request *rq, struct bulk_turn *turn)
{
    note_why(rq, turn);
    return bb_failed(rq);
}

static void count(struct bb_request *rq, struct bb_tx *tx, void *arg)
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

static int finish(struct bb_request *rq, struct bb_tx *tx, struct batch *batch)
{
    batch->job.status = "finished";
    if (!bb_tx_query(rq, tx, &end, BB_ARGS(bb_t(batch->job.id))) ||
        bulk_emit_finished(rq, tx, &batch->job, "finished"))
        return failed(rq, batch->turn);
    return 200;
}

/* Counts the outcomes of a part's rows, and moves the cursor past them. */
static int note_part(struct bb_request *rq, struct bb_tx *tx, struct batch *batch,
                     const struct part *part)
{
    int64_t bad;
    const char *findings = bulk_findings_json(rq, part->rows, false, &bad);
    int64_t good = (int64_t)part->rows->count - bad;

    if (!findings)
        return bb_no_memory(rq);
    int64_t more = (bad ? (int64_t)strlen(findings) : 0) - part->before_bytes;

    batch->succeeded += good;
    batch->failed += bad;
    return bb_tx_query(rq, tx, &note,
                       BB_ARGS(bb_t(batch->job.id), bb_i(part->cursor), bb_i(good), bb_i(bad),
                               bb_t(findings), bb_i(part->last), bb_i(bad - part->before),
                               bb_i(more)))
               ? 200
               : failed(rq, batch->turn);
}

static int save(struct bb_request *rq, struct bb_tx *tx, struct batch *batch)
{
    struct bulk_job *job = &batch->job;
    int status = 200;

    for (size_t i = 0; i < batch->part_count && status == 200; i++)
        status = note_part(rq, tx, batch, &batch->parts[i]);
    if (status != 200)
        return status;
    job->succeeded += batch->succeeded;
    job->failed += batch->failed;
    bb_after(rq, tx, count, batch);
    return bulk_done(job) < job->rows ? 200 : finish(rq, tx, batch);
}

/* Collects the rows of all parts. */
static struct bulk_batch *all_rows(struct bb_request *rq, const struct batch *batch)
{
    struct bulk_batch *all = bb_alloc(rq, sizeof(*all));
    size_t count = 0;

    for (size_t i = 0; i < batch->part_count; i++)
        count += batch->parts[i].rows->count;
    *all = (struct bulk_batch){.type = batch->type,
                               .rows = bb_alloc(rq, (count + 1) * sizeof(struct bb_bulk_row *))};
    for (size_t i = 0; i < batch->part_count; i++) {
        const struct bulk_batch *rows = batch->parts[i].rows;

        if (rows->count)
            memcpy(all->rows + all->count, rows->rows, rows->count * sizeof(*rows->rows));
        all->count += rows->count;
    }
    return all;
}

static int ask_permission(struct bb_request *rq, struct bulk_turn *turn, const struct bulk_job *job,
                          const struct bulk_type *type, const char **reason)
{
    int64_t now = bb_now_ms(rq->host);
    int permitted = is_permitted(rq, job, type, reason);

    turn->permitted[0] = '\0';
    if (permitted <= 0)
        return permitted;
    strncpy(turn->permitted, job->id, sizeof(turn->permitted) - 1);
    turn->permitted_ms = now;
    return 1;
}

/* Cancels a job whose sender may not store its rows any more. */
static int end_lapsed(struct bb_request *rq, struct bb_tx *tx, struct batch *batch,
                      const char *reason)
{
    const char *id = batch->job.id;

    if (!bb_tx_query(rq, tx, &lapse, BB_ARGS(bb_t(id), bb_t(reason))) ||
        bulk_end_cancelled(rq, tx, id, &batch->job))
        return failed(rq, batch->turn);
    return 200;
}

static int store(struct bb_request *rq, struct bb_tx *tx, struct batch *batch)
{
    struct bulk_turn *turn = batch->turn;
    const struct bulk_batch *rows = all_rows(rq, batch);

    turn->count = rows->count;
    turn->tried = rows->count == 1 ? rows->rows[0]->number : 0;
    if (turn->tried && turn->tried == turn->refused_row && !strcmp(turn->refused, batch->job.id))
        bb_bulk_problem(rq, rows->rows[0], "", "cannot be stored: the database refuses it");
    else if (bulk_call(rq, tx, rows, &batch->job))
        return failed(rq, turn);
    if (bb_now_ms(rq->host) - turn->permitted_ms > LAPSED_MS) {
        const char *reason;
        int permitted = ask_permission(rq, turn, &batch->job, batch->type, &reason);

        if (permitted < 0)
            return failed(rq, turn);
        turn->lapsed = !permitted; /* the next batch ends the job */
        if (turn->lapsed)
            return bb_fail_text(rq, 409, reason);
    }
    return save(rq, tx, batch);
}

/* Returns how many rows of the first part to use: all of them, or fewer if there is a reason. */
static size_t rows_at_most(const struct bulk *bulk, const struct batch *batch)
{
    size_t narrow = atomic_load(&bulk->narrow);

    if (batch->turn->narrowed)
        return narrow ? narrow : 1;
    return batch->turn->small && !batch->type->together ? SMALL_ROWS : BULK_PART_ROWS;
}

/* Deletes the findings of a part's rows and counts them. Returns 0, or -1 on failure. */
static int forget_findings(struct bb_request *rq, struct bb_tx *tx, const struct batch *batch,
                           struct part *part)
{
    const struct bb_rows *gone = bb_tx_query(
        rq, tx, &forget, BB_ARGS(bb_t(batch->job.id), bb_i(batch->job.cursor), bb_i(part->cursor)));

    if (!gone)
        return -1;
    part->before = bb_cell_int(rq, gone, 0, 0);
    part->before_bytes = bb_cell_int(rq, gone, 0, 1);
    return 0;
}

/*
 * Reads a part of the job; after a part that is read to its end the cursor is at that end. Returns
 * 0, or the status of the response sent.
 */
static int read_part(struct bb_request *rq, struct bb_tx *tx, struct batch *batch,
                     const struct bulk_columns *columns, const struct bb_rows *parts, size_t row)
{
    struct part *part = &batch->parts[row];
    const char *bytes = bb_cell(rq, parts, row, 3);
    const struct bulk_batch *rows =
        bulk_batch_of(rq, batch->type, columns, bytes, strlen(bytes),
                      bb_cell_int(rq, parts, row, 0), batch->job.cursor, batch->most);

    if (rows->why)
        return bb_fail_text(rq, 503, rows->why);
    part->rows = rows;
    part->last = part->cursor = bb_cell_int(rq, parts, row, 1);
    if (rows->count == batch->most)
        part->cursor = rows->rows[batch->most - 1]->number;
    if (bb_cell_int(rq, parts, row, 2) && forget_findings(rq, tx, batch, part))
        return failed(rq, batch->turn);
    batch->turn->last = part->cursor;
    batch->part_count++;
    return 0;
}

static int store_parts(struct bb_request *rq, struct bb_tx *tx, struct batch *batch,
                       const struct bb_rows *parts)
{
    const struct bulk_columns *columns = bulk_job_columns(rq, rq->state, &batch->job);
    size_t count = bb_count(rq, parts);
    int status = columns ? 0 : bb_no_memory(rq);

    batch->parts = bb_alloc(rq, count * sizeof(*batch->parts));
    for (size_t row = 0; row < count && !status; row++)
        status = read_part(rq, tx, batch, columns, parts, row);
    return status ? status : store(rq, tx, batch);
}

/*
 * Returns the number of parts to read: as many as the type's rows per call allow, or one if only
 * some rows are used.
 */
static int64_t parts_at_most(const struct batch *batch)
{
    size_t parts = batch->type->rows_max / BULK_PART_ROWS;

    return batch->turn->narrowed || batch->most < BULK_PART_ROWS || !parts ? 1 : (int64_t)parts;
}

static int claim_and_store(struct bb_request *rq, struct bb_tx *tx, struct bulk_turn *turn)
{
    struct batch *batch = bb_alloc(rq, sizeof(*batch));
    const struct bb_rows *jobs = bb_tx_query(rq, tx, &claim, BB_ARGS(bb_t(turn->types)));

    turn->idle = jobs && !bb_count(rq, jobs);
    if (!jobs)
        return failed(rq, turn);
    if (turn->idle)
        return 200;
    batch->turn = turn;
    batch->job = bulk_job_whole(rq, jobs, 0);
    batch->type = bulk_type_named(rq->state, batch->job.type);
    turn->narrowed = batch->job.cursor < batch->job.single;
    batch->most = rows_at_most(rq->state, batch);
    strncpy(turn->id, batch->job.id, sizeof(turn->id) - 1);
    const char *reason;
    bool known = !strcmp(turn->permitted, turn->id) &&
                 bb_now_ms(rq->host) - turn->permitted_ms < PERMITTED_MS;
    int permitted = known ? 1 : ask_permission(rq, turn, &batch->job, batch->type, &reason);

    if (permitted <= 0)
        return permitted ? failed(rq, turn) : end_lapsed(rq, tx, batch, reason);
    if (!batch->job.cursor)
        bb_log(rq, BB_INFO, "bulk upload %s begins: %lld rows of type %s", batch->job.id,
               (long long)batch->job.rows, batch->job.type);
    const struct bb_rows *parts = bb_tx_query(
        rq, tx, &parts_of,
        BB_ARGS(bb_t(batch->job.id), bb_i(batch->job.cursor), bb_i(parts_at_most(batch))));

    if (!parts)
        return failed(rq, turn);
    return bb_count(rq, parts) ? store_parts(rq, tx, batch, parts) : finish(rq, tx, batch);
}

static int store_batch(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct bulk_turn *turn = arg;
    int status = claim_and_store(rq, tx, turn);

    turn->written = status < 400;
    return status;
}

/* ---- the job ---- */

#define TURN_MS 500
#define PAUSE_MS 100 /* maximum, between two batches */
#define BUSY_MS 2000 /* how long the host counts as busy after it was last seen to be */
#define NARROWER 4   /* a refused batch is split into this many */
#define RETRY_TEXT "10"

/* Search for a refused row in the rows up to $2. */
static const struct bb_sql narrow_down = {
    "UPDATE bulk_job SET single = greatest(single, $2::bigint) WHERE id = $1::uuid",
    BB_SQL_WRITE,
};

static const struct bb_sql wait_a_while = {
    "UPDATE bulk_job SET retry_at = now() + interval '" RETRY_TEXT " s' WHERE id = $1::uuid"
    " AND status = 'confirmed'",
    BB_SQL_WRITE,
};

static const struct bb_sql count_waiting = {
    "SELECT coalesce(sum(rows - succeeded - failed), 0)::bigint, count(*)"
    " FROM bulk_job WHERE status = 'confirmed'",
    0,
};

static int transact(struct bb_request *rq, void *arg)
{
    struct bulk_turn *turn = arg;

    turn->id[0] = turn->sqlstate[0] = '\0';
    turn->last = turn->tried = 0;
    turn->count = 0;
    turn->written = turn->narrowed = turn->lapsed = false;
    int status = bb_transaction(rq, store_batch, turn);

    if (status >= 400 && turn->written)
        note_why(rq, turn);
    return status;
}

/* Data that does not fit, a violated constraint, or an error raised by a statement itself. */
static bool blames_rows(const char *sqlstate)
{
    return !strncmp(sqlstate, "22", 2) || !strncmp(sqlstate, "23", 2) ||
           !strncmp(sqlstate, "BB", 2);
}

/* After each batch stored while searching a refused row, the next batch is larger. */
static bool go_on(struct bulk *bulk, const struct bulk_turn *turn)
{
    size_t wider = 2 * turn->count;

    if (turn->narrowed)
        atomic_store(&bulk->narrow, wider < BULK_PART_ROWS ? wider : BULK_PART_ROWS);
    return !turn->idle;
}

/* Returns whether to continue at once. */
static bool go_on_after(struct bb_request *rq, struct bulk_turn *turn)
{
    struct bulk *bulk = rq->state;

    if (!turn->id[0] || turn->lapsed)
        return turn->lapsed;
    if (blames_rows(turn->sqlstate) && turn->tried) {
        memcpy(turn->refused, turn->id, sizeof(turn->refused));
        turn->refused_row = turn->tried;
        return true;
    }
    if (blames_rows(turn->sqlstate)) {
        atomic_store(&bulk->narrow, turn->count / NARROWER);
        return bb_query(rq, &narrow_down, BB_ARGS(bb_t(turn->id), bb_i(turn->last))) != NULL;
    }
    bb_log(rq, BB_WARN, "a batch of bulk upload %s failed and is retried: %s", turn->id,
           turn->sqlstate);
    (void)bb_query(rq, &wait_a_while, BB_ARGS(bb_t(turn->id)));
    return false;
}

static const char *types_json(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    json_t *list = bb_json_hold(rq, json_array());
    size_t length;

    for (size_t i = 0; i < bulk->type_count; i++)
        if (json_array_append_new(list, json_string(bulk->types[i].name)))
            return NULL;
    return list ? bb_json(rq, list, &length) : NULL;
}

/* Returns the number of waiting jobs; 0 also if the database is unavailable. */
static int64_t look(struct bb_request *rq)
{
    struct bulk *bulk = rq->state;
    const struct bb_rows *rows = bb_query(rq, &count_waiting, BB_NO_ARGS);

    if (!rows)
        return 0;
    atomic_store(&bulk->waiting, bb_cell_int(rq, rows, 0, 0));
    return bb_cell_int(rq, rows, 0, 1);
}

void bulk_run(struct bb_request *rq)
{
    struct bulk *bulk = rq->state;
    struct bulk_turn *turn = bb_alloc(rq, sizeof(*turn));
    int64_t until = bb_now_ms(rq->host) + TURN_MS;
    bool more = look(rq) > 0;
    int64_t busy_ms = atomic_load(&bulk->busy_ms);
    struct bb_pace pace = {.busy = busy_ms && bb_now_ms(rq->host) - busy_ms < BUSY_MS};

    turn->types = more ? types_json(rq) : NULL;
    turn->small = bb_pace(rq, &pace, PAUSE_MS);
    const int64_t window = pace.window_ms;

    while (turn->types && more && bb_now_ms(rq->host) < until) {
        more = bb_scratch(rq, transact, turn) < 400 ? go_on(bulk, turn) : go_on_after(rq, turn);
        turn->small = bb_pace(rq, &pace, PAUSE_MS);
    }
    if (pace.busy && pace.window_ms != window) /* seen now, not carried over from earlier */
        atomic_store(&bulk->busy_ms, bb_now_ms(rq->host));
    if (more)
        bb_again(rq);
}
