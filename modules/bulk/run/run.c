#include "modules/bulk/run/run.h"

#include <string.h>

static bool acts_in(const struct bb_account_scope *scope, int64_t organization)
{
    for (size_t i = 0; i < scope->organization_count; i++)
        if (scope->organizations[i] == organization)
            return true;
    return scope->role == BB_ROLE_ADMIN;
}

/* The operator's command has no account and is always permitted. */
int bulk_permitted(struct bb_request *rq, const struct bulk_job *job, const struct bulk_type *type,
                   const char **reason)
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
    int status = bb_transaction(rq, bulk_store_batch, turn);

    if (status >= 400 && turn->written)
        bulk_note_why(rq, turn);
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
    json_t *list = json_array();
    size_t length;
    bool lost = !list;

    for (size_t i = 0; i < bulk->type_count && !lost; i++)
        lost = json_array_append_new(list, json_string(bulk->types[i].name)) != 0;
    const char *text = lost ? NULL : bb_json(rq, list, &length);

    json_decref(list);
    return text;
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

/* Returns whether the host was busy with requests a moment ago. */
static bool was_busy(struct bb_request *rq, const struct bulk *bulk)
{
    int64_t then = atomic_load(&bulk->busy_ms);

    return then && bb_now_ms(rq->host) - then < BUSY_MS;
}

void bulk_run(struct bb_request *rq)
{
    struct bulk *bulk = rq->state;
    struct bulk_turn *turn = bb_alloc(rq, sizeof(*turn));
    int64_t until = bb_now_ms(rq->host) + TURN_MS;
    bool more = look(rq) > 0;
    struct bb_pace pace = {.busy = was_busy(rq, bulk)};

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
