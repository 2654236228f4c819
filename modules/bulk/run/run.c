/*
 * The job bulk.run: rows of confirmed jobs, a batch a transaction, on every host.
 *
 * A batch locks the row of its job, stores rows, and counts them, all in one transaction; another
 * host passes a locked job by. So there is one run of a job at a time, and what a killed host had
 * not committed was never done: nothing is taken over, resumed or released. Of each organisation
 * the oldest job has its turn, and the one that waited longest goes first.
 *
 * A batch that the database refuses for what is in it is done again row by row, until the row is
 * found. When it cannot be done for another reason the job waits a while.
 */
#include <string.h>

#include "modules/bulk/job/bulk.h"

#define TURN_MS 500
#define RETRY_TEXT "10"

/* $1 JSON array of the types that are loaded. Jobs of other types wait, and none waits for them. */
#define LOADED "IN (SELECT json_array_elements_text($1::json))"
static const struct bb_sql claim = {
    "SELECT " BULK_JOB " FROM bulk_job j WHERE j.status = 'confirmed'"
    " AND j.type " LOADED " AND (j.retry_at IS NULL OR j.retry_at <= now())"
    " AND NOT EXISTS (SELECT FROM bulk_job o WHERE o.status = 'confirmed'"
    " AND o.organisation = j.organisation AND o.retry_at IS NULL AND o.type " LOADED
    " AND (o.confirmed_at, o.id) < (j.confirmed_at, j.id))"
    " ORDER BY j.served_at NULLS FIRST, j.confirmed_at LIMIT 1 FOR UPDATE OF j SKIP LOCKED",
    BB_SQL_WRITE,
};

static const struct bb_sql part_of = {
    "SELECT first_row, last_row, failed, bytes FROM bulk_part WHERE job = $1::uuid"
    " AND last_row > $2::bigint ORDER BY last_row LIMIT 1",
    0,
};

/* What the check had found. $1 job, $2 and $3 rows: behind, and up to */
static const struct bb_sql forget = {
    "DELETE FROM bulk_finding WHERE job = $1::uuid AND number > $2::bigint AND number <= "
    "$3::bigint",
    BB_SQL_WRITE,
};

/* $1 job, $2 cursor, $3 succeeded, $4 failed, $5 findings, $6 last row of the part, $7 how many
 * findings it has more */
static const struct bb_sql note = {
    "WITH found AS (INSERT INTO bulk_finding (job, number, name, problems)"
    " SELECT $1::uuid, f.number, f.name, f.problems"
    " FROM json_to_recordset($5::json) AS f (number bigint, name text, problems text)),"
    " part AS (UPDATE bulk_part SET failed = failed + $7::int WHERE job = $1::uuid"
    " AND last_row = $6::bigint AND $7::int <> 0)"
    " UPDATE bulk_job SET cursor = $2::bigint, succeeded = succeeded + $3::int,"
    " failed = failed + $4::int, served_at = clock_timestamp(), retry_at = NULL"
    " WHERE id = $1::uuid",
    BB_SQL_WRITE,
};

static const struct bb_sql end = {
    "UPDATE bulk_job SET status = 'finished', ended_at = now() WHERE id = $1::uuid",
    BB_SQL_WRITE,
};

static const struct bb_sql one_by_one = {
    "UPDATE bulk_job SET single = $2::bigint WHERE id = $1::uuid",
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

enum { ID_SIZE = 37 };

/* A turn of the job. */
struct fair_entry {
    const char *types;
    bool idle;             /* no job could be had */
    char id[ID_SIZE];      /* of the batch; empty: none */
    int64_t last;          /* its part's last row */
    int64_t tried;         /* the row of a batch of one; 0: it has more */
    char refused[ID_SIZE]; /* the job of a row that the database refuses */
    int64_t refused_row;
    char sqlstate[8]; /* why the batch failed */
    bool written;     /* the batch was; what fails then is the commit, and what runs before it */
};

/* One batch. */
struct batch {
    struct fair_entry *turn;
    struct bulk_job job;
    int64_t cursor, last, before; /* before: findings of the part that go away */
    int64_t succeeded, failed;
    const char *findings;
};

static void note_why(struct bb_request *rq, struct fair_entry *turn)
{
    strncpy(turn->sqlstate, bb_sqlstate(rq), sizeof(turn->sqlstate) - 1);
}

static int failed(struct bb_request *rq, struct fair_entry *turn)
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

static int save(struct bb_request *rq, struct bb_tx *tx, struct batch *batch)
{
    struct bulk_job *job = &batch->job;

    if (!bb_tx_query(rq, tx, &note,
                     BB_ARGS(bb_t(job->id), bb_i(batch->cursor), bb_i(batch->succeeded),
                             bb_i(batch->failed), bb_t(batch->findings), bb_i(batch->last),
                             bb_i(batch->failed - batch->before))))
        return failed(rq, batch->turn);
    job->succeeded += batch->succeeded;
    job->failed += batch->failed;
    bb_after(rq, tx, count, batch);
    return bulk_done(job) < job->rows ? 200 : finish(rq, tx, batch);
}

static int store(struct bb_request *rq, struct bb_tx *tx, struct batch *batch,
                 const struct bulk_batch *rows)
{
    struct fair_entry *turn = batch->turn;
    bool refused = rows->count == 1 && rows->rows[0]->number == turn->refused_row &&
                   !strcmp(turn->refused, batch->job.id);

    if (refused)
        bb_bulk_problem(rq, rows->rows[0], "", "cannot be stored: the database refuses it");
    else if (bulk_call(rq, tx, rows, &batch->job))
        return failed(rq, turn);
    batch->findings = bulk_findings_json(rq, rows, &batch->failed);
    batch->succeeded = (int64_t)rows->count - batch->failed;
    return batch->findings ? save(rq, tx, batch) : bb_fail(rq, 503, "Out of memory");
}

/* Behind a part that was read to its end the next one begins. */
static int64_t cursor_behind(const struct batch *batch, const struct bulk_batch *rows, size_t most)
{
    int64_t number = rows->count ? rows->rows[rows->count - 1]->number : batch->last;

    return rows->count < most ? batch->last : number;
}

static int store_part(struct bb_request *rq, struct bb_tx *tx, struct batch *batch,
                      const struct bb_rows *part)
{
    const struct bulk *bulk = rq->state;
    struct bulk_job *job = &batch->job;
    const struct bulk_type *type = bulk_type_named(bulk, job->type);
    size_t most = job->cursor < job->single ? 1 : BULK_PART_ROWS;
    const char *bytes = bb_cell(rq, part, 0, 3);
    const struct bulk_columns *columns = bulk_job_columns(rq, bulk, job);
    const struct bulk_batch *rows =
        columns ? bulk_batch_of(rq, type, columns, bytes, strlen(bytes),
                                bb_cell_int(rq, part, 0, 0), job->cursor, most)
                : NULL;

    if (!rows || rows->why)
        return bb_fail_text(rq, 503, rows ? rows->why : "Out of memory");
    batch->last = bb_cell_int(rq, part, 0, 1);
    batch->cursor = cursor_behind(batch, rows, most);
    batch->turn->last = batch->last;
    batch->turn->tried = rows->count == 1 ? rows->rows[0]->number : 0;
    if (bb_cell_int(rq, part, 0, 2)) {
        const struct bb_rows *gone = bb_tx_query(
            rq, tx, &forget, BB_ARGS(bb_t(job->id), bb_i(job->cursor), bb_i(batch->cursor)));

        if (!gone)
            return failed(rq, batch->turn);
        batch->before = (int64_t)bb_affected(rq, gone);
    }
    return store(rq, tx, batch, rows);
}

static int lock_and_store(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct fair_entry *turn = arg;
    struct batch *batch = bb_alloc(rq, sizeof(*batch));
    const struct bb_rows *jobs = bb_tx_query(rq, tx, &claim, BB_ARGS(bb_t(turn->types)));

    turn->idle = jobs && !bb_count(rq, jobs);
    if (!jobs)
        return failed(rq, turn);
    if (turn->idle)
        return 200;
    batch->turn = turn;
    batch->job = bulk_job_of(rq, jobs, 0);
    strncpy(turn->id, batch->job.id, sizeof(turn->id) - 1);
    if (!batch->job.cursor)
        bb_log(rq, BB_INFO, "bulk upload %s begins: %lld rows of type %s", batch->job.id,
               (long long)batch->job.rows, batch->job.type);
    const struct bb_rows *part =
        bb_tx_query(rq, tx, &part_of, BB_ARGS(bb_t(batch->job.id), bb_i(batch->job.cursor)));

    if (!part)
        return failed(rq, turn);
    return bb_count(rq, part) ? store_part(rq, tx, batch, part) : finish(rq, tx, batch);
}

static int one_batch(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    struct fair_entry *turn = arg;
    int status = lock_and_store(rq, tx, turn);

    turn->written = status < 400;
    return status;
}

static int transact(struct bb_request *rq, void *arg)
{
    struct fair_entry *turn = arg;

    turn->id[0] = turn->sqlstate[0] = '\0';
    turn->last = turn->tried = 0;
    turn->written = false;
    int status = bb_transaction(rq, one_batch, turn);

    if (status >= 400 && turn->written)
        note_why(rq, turn);
    return status;
}

/* Data that does not fit, a rule that was broken, or what a statement itself refused. */
static bool blames_rows(const char *sqlstate)
{
    return !strncmp(sqlstate, "22", 2) || !strncmp(sqlstate, "23", 2) ||
           !strncmp(sqlstate, "BB", 2);
}

/* Whether to go on at once. */
static bool go_on_after(struct bb_request *rq, struct fair_entry *turn)
{
    if (!turn->id[0])
        return false;
    if (blames_rows(turn->sqlstate) && turn->tried) {
        memcpy(turn->refused, turn->id, sizeof(turn->refused));
        turn->refused_row = turn->tried;
        return true;
    }
    if (blames_rows(turn->sqlstate))
        return bb_query(rq, &one_by_one, BB_ARGS(bb_t(turn->id), bb_i(turn->last))) != NULL;
    bb_log(rq, BB_WARN, "a batch of bulk upload %s failed, and is tried again: %s", turn->id,
           turn->sqlstate);
    (void)bb_query(rq, &wait_a_while, BB_ARGS(bb_t(turn->id)));
    return false;
}

static const char *types_json(struct bb_request *rq)
{
    const struct bulk *bulk = rq->state;
    json_t *list = json_array();
    size_t length;
    bool lost = !list;

    for (size_t i = 0; i < bulk->type_count && !lost; i++)
        lost = json_array_append_new(list, json_string(bulk->types[i].name)) != 0;
    const char *text = lost ? NULL : bb_json(rq, list, &length);

    json_decref(list);
    return text;
}

/* How many jobs wait; 0 also where the database is away. */
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
    struct fair_entry *turn = bb_alloc(rq, sizeof(*turn));
    int64_t until = bb_now_ms(rq->host) + TURN_MS;
    bool more = look(rq) > 0;

    turn->types = more ? types_json(rq) : NULL;
    while (turn->types && more && bb_now_ms(rq->host) < until)
        more = bb_scratch(rq, transact, turn) < 400 ? !turn->idle : go_on_after(rq, turn);
    if (more)
        bb_again(rq);
}
