/*
 * Events of units and transactions: hooks within a transaction are committed or rolled back with
 * it; committed hooks receive each event that is in the database once, and no others.
 */
#include "core/lib/text.h"
#include "core/module/reply.h"
#include "pg_stage.h"
#include "suite.h"

enum {
    SYNCED = 6 /* bytes of the response to a Sync */,
    TAGGED = 12 /* bytes of the response to COMMIT */
};

static const struct bb_sql trail = {"INSERT trail", 0}, count = {"UPDATE count", 0};
static struct stage_call call;
static bool vetoes; /* makes the hook or the function before the commit refuse */
static unsigned heard, last_runs;
static char within_id[TEXT_UUID_SIZE], heard_id[TEXT_UUID_SIZE];

/* ---- a module that raises an event and receives it ------------------------------------------- */

static int refuse(struct bb_request *rq)
{
    reply_error(request_of(rq), 409, "vetoed");
    return -1;
}

static int within(struct bb_request *rq, struct bb_tx *tx, const struct bb_event *event,
                  void *state)
{
    (void)state;
    snprintf(within_id, sizeof within_id, "%s", event->id);
    if (vetoes)
        return refuse(rq);
    return api_add(tx, &trail, NULL, 0) < 0 ? -1 : 0;
}

static void committed(struct bb_request *rq, const struct bb_event *event)
{
    (void)rq;
    heard++;
    snprintf(heard_id, sizeof heard_id, "%s", event->id);
}

static const struct bb_event_descriptor descriptor = {.name = "thing.new"};
static const struct bb_hook hooks[] = {
    {.event = "thing.new", .kind = BB_WITHIN, .within = within},
    {.event = "thing.new", .kind = BB_COMMITTED, .committed = committed}};
static struct core_module module;
static const struct core_hook within_hook = {&hooks[0], &module.handle},
                              committed_hook = {&hooks[1], &module.handle};
static const struct core_event event = {.descriptor = &descriptor,
                                        .module = &module,
                                        .within = &within_hook,
                                        .within_count = 1,
                                        .committed = &committed_hook,
                                        .committed_count = 1};

static void set_up(void)
{
    stage_set_up();
    stage_generation.events = &event;
    stage_generation.event_count = 1;
    vetoes = false;
    heard = last_runs = 0;
    call = (struct stage_call){.sql.text = "INSERT thing"};
}

static int raise_event(struct bb_tx *tx)
{
    return api_emit(tx, descriptor.name, json_object(), NULL);
}

static void raise_in_unit(struct core_request *rq, struct stage_call *of)
{
    struct bb_tx *unit = api_unit(&rq->pub, 0);

    request_enter(rq, &module.handle.host);
    if (api_add(unit, &of->sql, NULL, 0) < 0 || raise_event(unit) ||
        !api_commit(&rq->pub, unit, 201, json_object()))
        reply_failed(rq);
}

static int count_up(struct bb_request *rq, struct bb_tx *tx, void *state)
{
    (void)state;
    last_runs++;
    if (vetoes)
        return refuse(rq);
    return api_add(tx, &count, NULL, 0) < 0 ? -1 : 0;
}

static int raise_twice(struct bb_request *rq, struct bb_tx *tx, void *arg)
{
    const struct stage_call *of = arg;
    bool would = vetoes;

    vetoes = false; /* only the function before the commit refuses */
    if (!api_tx_query(tx, &of->sql, NULL, 0) || raise_event(tx) || raise_event(tx) ||
        !api_before(tx, count_up, 1) || !api_before(tx, count_up, 1))
        return -1;
    vetoes = would;
    return reply_json(request_of(rq), 201, json_object(), false);
}

static void raise_in_transaction(struct core_request *rq, struct stage_call *of)
{
    request_enter(rq, &module.handle.host);
    api_transaction(&rq->pub, raise_twice, of);
}

static void run(enum pg_pool_kind kind)
{
    call.work = kind == PG_TX ? raise_in_transaction : raise_in_unit;
    stage_open(kind, 1);
    stage_do(&call);
}

static unsigned times(const char *text)
{
    return pg_script_times(&stage_server, text);
}

/* ---- the tests ------------------------------------------------------------------------------- */

TEST(a_committed_hook_receives_each_event_of_a_unit_once)
{
    run(PG_UNIT);
    ck_assert_int_eq(call.status, 201);
    ck_assert_uint_eq(heard, 1);
    ck_assert_str_eq(heard_id, within_id);
    ck_assert_uint_eq(times(trail.text), 1);
    ck_assert_uint_eq(stage_server.syncs, 1);
}

/* BEGIN, the transaction's own statement, the ones added by two hooks and by the function,
 * COMMIT. */
TEST(statements_of_hooks_are_sent_together_in_a_transaction)
{
    run(PG_TX);
    ck_assert_int_eq(call.status, 201);
    ck_assert_uint_eq(heard, 2);
    ck_assert_uint_eq(times(trail.text), 2);
    ck_assert_uint_eq(times(count.text), 1);
    ck_assert_uint_eq(last_runs, 1);
    ck_assert_uint_eq(stage_server.syncs, 4);
}

/* The response to a unit's Sync or a transaction's COMMIT is cut at each byte. */
TEST_EACH(committed_hooks_are_not_called_if_the_commit_response_is_cut, SYNCED + TAGGED)
{
    bool unit = _i < SYNCED;

    stage_play_cut(unit ? SCRIPT_SYNC : SCRIPT_EXECUTE, unit ? NULL : "COMMIT",
                   (size_t)(unit ? _i : _i - SYNCED));
    run(unit ? PG_UNIT : PG_TX);
    ck_assert_int_eq(call.status, 503);
    ck_assert_uint_eq(heard, 0);
}

static const struct {
    enum pg_pool_kind kind;
    const char *fails; /* the statement that fails; NULL: a hook, or the function, refuses */
    int status;
} undone[] = {
    {PG_UNIT, "INSERT trail", 422}, {PG_UNIT, NULL, 409}, {PG_TX, "INSERT trail", 422},
    {PG_TX, "UPDATE count", 422},   {PG_TX, NULL, 409},
};

/* A refused unit is never sent. */
TEST_EACH(a_failing_hook_rolls_back_its_unit_or_transaction, sizeof undone / sizeof *undone)
{
    bool unit = undone[_i].kind == PG_UNIT;

    vetoes = !undone[_i].fails;
    if (!vetoes)
        stage_play(SCRIPT_EXECUTE, undone[_i].fails, SCRIPT_ERROR, "BB422");
    run(undone[_i].kind);
    ck_assert_int_eq(call.status, undone[_i].status);
    ck_assert_uint_eq(heard, 0);
    ck_assert_uint_eq(times("COMMIT"), 0);
    ck_assert_uint_eq(times("ROLLBACK"), !unit);
    if (unit)
        ck_assert_uint_eq(stage_server.syncs, !vetoes);
}

SUITE(bus, .before_each = set_up, .after_each = stage_tear_down, .timeout_s = STAGE_SECONDS)
