/*
 * Reads from replicas: standbys of the primary that stream its WAL (`database.replicas`).
 *
 * A read must return everything that its account has written or already seen, whichever hosts and
 * servers handled the earlier requests. So the replica must have replayed the WAL up to the last
 * position that the account may have seen. Before each read, the host asks the primary for the
 * position up to which its WAL is flushed (busbar_position()). Requests that wait at the same time
 * share this query. Every commit that was acknowledged, or that any statement on the primary or on
 * a replica has seen, was flushed before. So no account has seen a later position, and a read
 * returns the same as on the primary. A lower position for each account, in Redis or sent by
 * NOTIFY, would not be safe: Redis loses its last writes in a failover, and a notification may
 * arrive after the client's next request. If the primary does not respond, no replica is used.
 *
 * Positions of different timelines must not be compared. So a position includes the mark of its
 * timeline, a random value that a host has stored on this timeline. A replica that has the row of
 * the mark has replayed WAL of this timeline. A standby of a former primary does not have the row,
 * even if its WAL is longer and its timeline has the same number. In addition, the mark must be the
 * newest one in the replica: a standby of the next primary has this mark, but also a newer one.
 *
 * The replica executes two statements in one batch: the first one, `replayed`, waits until the
 * server has replayed up to the position, and checks the mark. The second one is the statement of
 * the module, with a later snapshot. So every connection is checked for every read, and it does not
 * matter if a proxy or a promotion connects it to another server. If anything fails, the statement
 * runs on the primary.
 *
 * Twice a second each loop checks each replica with busbar_position() and `replayed` alone. A
 * replica is used while its last check and all later reads have succeeded in time. If a check gets
 * no response, the loop closes its connections to the replica, and reads run on the primary.
 */
#include <stdio.h>

#include "core/lib/log.h"
#include "core/module/engine.h"
#include "core/store/pg_pool.h"
#include "core/store/sql.h"

enum {
    RESPONSE_MS = 1000, /* time for a response, in addition to the time that `replayed` may wait */
    LEAST_WAIT_MS = 20,
    WAIT_FACTOR = 4 /* a read may wait for this multiple of the lag that the last check found */
};

enum replica_state { REPLICA_USED, REPLICA_BEHIND, REPLICA_PRIMARY, REPLICA_BRANCH, REPLICA_AWAY };

const char *const pg_replica_states[] = {"in use", "has not caught up", "is not a standby",
                                         "does not follow the primary", "does not respond"};

/* Returns the position with its mark; null on a standby, or if the timeline has no mark yet. */
static const struct bb_keyed position = {
    {"SELECT busbar_position() FROM (SELECT $1::bigint) AS k", BB_SQL_KEYED},
    {"WITH p AS MATERIALIZED (SELECT busbar_position()) SELECT p.*, k.i FROM p, " BB_KEYS_1(
         "bigint") " k(any_number, i)",
     0},
};

static const struct bb_sql mark_timeline = {
    "INSERT INTO busbar_mark (timeline, number) SELECT busbar_timeline(),"
    " coalesce(max(number), 0) + 1 FROM busbar_mark ON CONFLICT DO NOTHING",
    BB_SQL_WRITE};

/* $1 is a position, and $2 how many ms to wait for it. Returns a value of enum replica_state. */
static const struct bb_sql replayed = {"SELECT busbar_replayed($1, $2::bigint)", 0};

struct replica_run {
    struct core_request rq; /* first, because replica_check() casts it to struct replica_run */
    struct pg_replica *replica;
};

const char *pg_replica_url(const struct pg_replica *replica)
{
    const struct host_settings *host = replica->pools[0].pg->loop->host;

    return json_string_value(json_array_get(host->database.replicas, replica->index));
}

static int64_t replica_lag_most(const struct pg *pg)
{
    const struct host_settings *host = pg->loop->host;
    int64_t lag = host->database.replica_lag, half = host->database.statement_timeout / 2;

    return lag < half ? lag : half; /* otherwise statement_timeout would end the wait */
}

static void replica_note(struct pg_replica *replica, enum replica_state state, int64_t lag_ms)
{
    const struct loop *loop = replica->pools[0].pg->loop;
    size_t before = atomic_exchange(&replica->stats->state, state);

    atomic_store(&replica->stats->lag_ms, (size_t)lag_ms);
    if (before != (size_t)state && !loop->index)
        log_line(BB_WARN, state ? "a replica is not used" : "a replica is used",
                 LOG_NUMBER("replica", replica->index + 1), "reason",
                 state ? pg_replica_states[state] : NULL, NULL);
}

/*
 * Runs the statement (NULL: none) when the replica has replayed up to the position. Returns the
 * statement's rows, or NULL. Sets *state if the state of the replica becomes known.
 */
static struct bb_rows *replica_run(struct core_request *rq, struct pg_replica *replica,
                                   const struct bb_sql *sql, const struct bb_value *values,
                                   size_t count, const char *at, int64_t wait_ms,
                                   enum replica_state *state)
{
    struct bb_rows *kept = pg_rows_new(rq), *rows = NULL;
    struct pg_request *request = pg_request_one(rq, &replayed, BB_ARGS(bb_t(at), bb_i(wait_ms)));

    if (sql && !pg_request_add(request, sql, values, count)) {
        pg_request_free(request);
        request_out_of_memory(rq);
    }
    if (pg_submit_to(replica, sql && sql->flags & BB_SQL_LONG, request)) {
        pg_request_free(request);
        return NULL;
    }
    if (sql && !(sql->flags & BB_SQL_LONG))
        request_wait_for(rq, &request->done,
                         wait_ms + RESPONSE_MS); /* limited, so that time is left for the primary */
    else
        request_wait_in_time(rq, &request->done);
    if (!request->done) {
        if (sql && !(sql->flags & BB_SQL_LONG))
            *state = REPLICA_AWAY;
        pg_request_abandon(request);
        return NULL;
    }
    const struct bb_rows *first = &request->ops->rows;

    if (first->result && PQntuples(first->result) == 1)
        *state = (enum replica_state)strtol(api_rows_text(first, 0, 0), NULL, 10);
    if (!request->failure.kind && *state == REPLICA_USED)
        rows = pg_rows_take(rq, kept, request->last);
    pg_request_free(request);
    return rows;
}

/* Returns the replicas in use in turn, one per call; NULL if none is in use. */
static struct pg_replica *replica_next(struct pg *pg)
{
    for (unsigned i = 0; i < pg->replica_count; i++) {
        struct pg_replica *replica = &pg->replicas[pg->next_replica++ % pg->replica_count];

        if (atomic_load(&replica->stats->state) == REPLICA_USED)
            return replica;
    }
    return NULL;
}

/* Asks the primary for its position. Returns the position, a text in *rows; NULL: unknown. */
static const char *replica_position(struct core_request *rq, const struct bb_rows **rows)
{
    *rows = sql_query(rq, &position.one, BB_ARGS(bb_i(0)));
    return *rows ? api_rows_text(*rows, 0, 0) : NULL;
}

struct bb_rows *pg_replica_query(struct core_request *rq, const struct bb_sql *sql,
                                 const struct bb_value *values, size_t count)
{
    struct pg_replica *replica = rq->loop->pg ? replica_next(rq->loop->pg) : NULL;
    const struct failure before = rq->failure;
    enum replica_state state = REPLICA_USED;
    const struct bb_rows *found;
    struct bb_rows *rows = NULL;

    if (!replica)
        return NULL;
    const char *at = replica_position(rq, &found);
    int64_t lag_ms = (int64_t)atomic_load(&replica->stats->lag_ms);
    int64_t wait_ms = LEAST_WAIT_MS + WAIT_FACTOR * lag_ms, most = replica_lag_most(rq->loop->pg);

    if (at)
        rows = replica_run(rq, replica, sql, values, count, at, wait_ms < most ? wait_ms : most,
                           &state);
    if (state != REPLICA_USED)
        replica_note(replica, state, lag_ms);
    atomic_fetch_add(rows ? &replica->stats->reads : &replica->stats->returned, 1);
    if (!rows)
        rq->failure = before;
    return rows;
}

/* ---- checks ---- */

static void replica_check(struct core_request *rq)
{
    struct pg_replica *replica = ((struct replica_run *)(void *)rq)->replica;
    struct pg *pg = rq->loop->pg;
    int64_t most = replica_lag_most(pg), began_ms = clock_mono_ms();
    enum replica_state state = REPLICA_AWAY;
    const struct bb_rows *found;
    const char *at = replica_position(rq, &found);

    if (found && !at)
        sql_query(rq, &mark_timeline, BB_NO_ARGS);
    if (!at)
        return;
    int64_t asked_ms = clock_mono_ms();
    bool passed = replica_run(rq, replica, NULL, NULL, 0, at, most, &state) != NULL;
    int64_t now = clock_mono_ms();
    bool silent = rq->timed_out && !passed && now - asked_ms >= RESPONSE_MS;

    if (!passed && rq->failure.kind == FAILED_BUSY) /* many reads wait for the replica */
        return;
    if (passed)
        replica->current_ms = began_ms;
    replica_note(replica, state, passed ? now - began_ms : now - replica->current_ms);
    for (unsigned i = 0; silent && i < 2; i++)
        for (unsigned k = 0; k < replica->pools[i].count; k++)
            pg_conn_lost(&replica->pools[i].conns[k], "no response within the time limit");
}

static void replica_checked(struct core_request *rq)
{
    ((struct replica_run *)(void *)rq)->replica->checking = false;
    request_free(rq);
}

static void replica_timer(struct timer *timer)
{
    struct pg *pg = BB_CONTAINER_OF(timer, struct pg, replica_check);
    struct loop *loop = pg->loop;
    struct generation *g = engine_generation(loop->engine);
    bool stopping = engine_stopping(loop->engine); /* then the loop may end at any time */
    bool ready = !stopping && atomic_load(&loop->engine->schema) == SCHEMA_READY;

    for (unsigned i = 0; ready && i < pg->replica_count; i++) {
        struct pg_replica *replica = &pg->replicas[i];
        struct replica_run *run =
            replica->checking ? NULL : request_make(sizeof *run, REQUEST_JOB, loop, g);

        if (!run)
            continue;
        run->replica = replica;
        run->rq.name = "check of a replica";
        run->rq.entry = replica_check;
        run->rq.ended = replica_checked;
        run->rq.deadline_ms = loop->now_ms + replica_lag_most(pg) + RESPONSE_MS;
        replica->checking = true;
        request_schedule(&run->rq);
    }
    generation_release(g);
    if (!stopping)
        timer_set(&loop->timers, timer, timer_beat(loop->now_ms, TIMER_IDLE_MS));
}

int pg_replicas_open(struct pg *pg)
{
    unsigned count = (unsigned)json_array_size(pg->loop->host->database.replicas);

    pg->replicas = count ? calloc(count, sizeof *pg->replicas) : NULL;
    pg->replica_check.fire = replica_timer;
    for (unsigned i = 0; pg->replicas && i < count; i++) {
        struct pg_replica *replica = &pg->replicas[i];

        *replica = (struct pg_replica){
            .index = i, .current_ms = pg->loop->now_ms, .stats = &pg->loop->stats.replicas[i]};
        atomic_store(&replica->stats->state, REPLICA_AWAY);
        pg->replica_count++;
        if (pg_pool_open(pg, &replica->pools[0], PG_READ, replica) ||
            pg_pool_open(pg, &replica->pools[1], PG_LONG, replica))
            return -1;
    }
    if (count)
        timer_set(&pg->loop->timers, &pg->replica_check, pg->loop->now_ms);
    return count && !pg->replicas ? -1 : 0;
}
