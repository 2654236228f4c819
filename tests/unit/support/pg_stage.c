#include "pg_stage.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/lib/log.h"
#include "core/lib/text.h"
#include "core/module/reply.h"

enum {
    PATIENCE_MS = 15000, /* the test fails after this time: its condition was never reached */
    CONNECT_MS = 20000,  /* longer than any request waits */
    STATEMENT_MS = 20000,
    QUEUE = 100
};

struct stage_request {
    struct core_request rq; /* must be first */
    struct stage_call *call;
};

struct pg_script stage_server;
struct loop stage_loop;
struct generation stage_generation;
static struct timer patience;
static struct host_settings settings;
static char url[512];
static bool (*awaited)(void);

static void flush(void *of)
{
    (void)of;
    if (stage_loop.pg)
        pg_flush(stage_loop.pg);
}

static void look(void *of)
{
    (void)of;
    if (awaited ? awaited() : !stage_loop.requests)
        stage_loop.stop = true;
}

static void give_up(struct timer *timer)
{
    (void)timer;
    ck_abort_msg("the condition that the test waits for does not become true");
}

void stage_set_up(void)
{
    log_level(BB_ERROR, false); /* many lines about lost connections are expected */
    starved = false;
    stage_generation = (struct generation){.holders = 1};
    patience = (struct timer){.fire = give_up};
    ck_assert_int_eq(loop_init(&stage_loop, NULL, 0), 0);
    loop_add_part(&stage_loop, &(struct loop_part){.run = flush});
    loop_add_part(&stage_loop, &(struct loop_part){.run = look});
    pg_script_begin(&stage_server, &stage_loop);
}

void stage_close(void)
{
    ck_assert_uint_eq(stage_loop.requests, 0);
    if (!stage_loop.pg)
        return;
    pg_free(stage_loop.pg);
    stage_loop.pg = NULL;
}

void stage_tear_down(void)
{
    stage_close();
    pg_script_end(&stage_server);
    loop_free(&stage_loop);
}

void stage_open_at(enum pg_pool_kind kind, unsigned count, const struct stage_place *place)
{
    char port[16];

    snprintf(port, sizeof port, "%u", stage_server.port);
    snprintf(url, sizeof url, STAGE_URL, place->hosts ? place->hosts : PG_SCRIPT_ADDRESS,
             place->ports ? place->ports : port, place->more ? place->more : "");
    settings = (struct host_settings){
        .http.client_percent = 100,
        .database = {.url = url,
                     .read_connections = kind == PG_READ ? count : 0,
                     .write_connections = kind == PG_WRITE ? count : 0,
                     .unit_connections = kind == PG_UNIT ? count : 0,
                     .long_connections = kind == PG_LONG ? count : 0,
                     .transaction_connections = kind == PG_TX ? count : 0,
                     .queue = QUEUE,
                     .gather = place->merge_max ? place->merge_max : 1,
                     .statement_timeout = STATEMENT_MS,
                     .connect_timeout = place->connect_ms ? place->connect_ms : CONNECT_MS}};
    stage_loop.host = &settings;
    stage_loop.pg = pg_new(&stage_loop);
    ck_assert_ptr_nonnull(stage_loop.pg);
}

void stage_open(enum pg_pool_kind kind, unsigned count)
{
    stage_open_at(kind, count, &(struct stage_place){.hosts = NULL});
}

struct pg_conn *stage_conn(enum pg_pool_kind kind, unsigned index)
{
    return &stage_loop.pg->pools[kind].conns[index];
}

void stage_play(enum script_when when, const char *text, enum script_act act, const char *say)
{
    pg_script_add(&stage_server, (struct script_line){when, text, act, say, 0});
}

void stage_play_cut(enum script_when when, const char *text, size_t bytes)
{
    pg_script_add(&stage_server, (struct script_line){when, text, SCRIPT_CLOSE, NULL, bytes});
}

bool stage_is_played(void)
{
    return pg_script_is_over(&stage_server);
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct stage_call *call_of(struct core_request *rq)
{
    return ((struct stage_request *)(void *)rq)->call;
}

static void entry(struct core_request *rq)
{
    struct stage_call *call = call_of(rq);

    if (call->work)
        call->work(rq, call);
    else
        stage_query(rq, call);
}

static void ended(struct core_request *rq)
{
    struct stage_call *call = call_of(rq);

    call->failure = rq->failure;
    call->status = rq->response.status;
    call->ended = true;
    request_free(rq);
}

void stage_ask(struct stage_call *call)
{
    struct stage_request *request =
        request_make(sizeof *request, REQUEST_HTTP, &stage_loop, &stage_generation);
    int64_t deadline_ms = call->deadline_ms ? call->deadline_ms : STAGE_DEADLINE_MS;

    ck_assert_ptr_nonnull(request);
    request->call = call;
    request->rq.entry = entry;
    request->rq.ended = ended;
    request->rq.deadline_ms = clock_mono_ms() + deadline_ms;
    request_start(&request->rq);
}

void stage_until(bool (*is_so)(void))
{
    awaited = is_so;
    stage_loop.stop = false;
    timer_set(&stage_loop.timers, &patience, clock_mono_ms() + PATIENCE_MS);
    loop_run(&stage_loop);
    timer_clear(&stage_loop.timers, &patience);
}

void stage_finish(void)
{
    stage_until(NULL);
}

void stage_do(struct stage_call *call)
{
    stage_ask(call);
    stage_finish();
}

static void keep_row(struct stage_call *call, const struct bb_rows *rows)
{
    const char *text = rows && api_rows_count(rows) ? api_rows_text(rows, 0, 0) : NULL;

    snprintf(call->text, sizeof call->text, "%s", text ? text : "");
}

void stage_query(struct core_request *rq, struct stage_call *call)
{
    keep_row(call, sql_query(rq, &call->sql, NULL, 0));
}

void stage_committed(struct bb_request *pub, struct bb_tx *tx, void *arg)
{
    struct stage_call *call = arg;

    (void)pub;
    (void)tx;
    call->told++;
}

void stage_unit(struct core_request *rq, struct stage_call *call)
{
    struct bb_tx *unit = api_unit(&rq->pub, call->key);

    api_after(unit, stage_committed, call);
    if (api_add(unit, &call->sql, NULL, 0) < 0 || !api_commit(&rq->pub, unit, 200, json_object())) {
        reply_failed(rq);
        return;
    }
    keep_row(call, api_unit_rows(unit, 0));
}

void stage_expect_row(const struct stage_call *call)
{
    ck_assert(call->ended);
    ck_assert_msg(call->failure.kind == FAILED_NOT, "%s: failed (%d) with %s", call->sql.text,
                  (int)call->failure.kind, call->failure.sqlstate);
    ck_assert_str_eq(call->text, call->sql.text);
}

void stage_expect_failure(const struct stage_call *call, enum failure_kind kind)
{
    ck_assert(call->ended);
    ck_assert_int_eq(call->failure.kind, kind);
    ck_assert_str_eq(call->text, "");
}
