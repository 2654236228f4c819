#include "core/store/pg_listener.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/lib/log.h"
#include "core/lib/sqlstate.h"
#include "core/lib/text.h"
#include "core/lib/thread.h"
#include "core/store/pg_connect.h"

enum {
    ASK_MS = 250,     /* interval of the queries while modules call bb_signals_fresh_ms() */
    FRESH_MS = 900,   /* validity of a response, from the time its query was sent */
    SILENT_MS = 900,  /* reconnect after this time without a response */
    REFUSED_MS = 900, /* a failure to connect after this time counts as silence, not as a refusal */
    LOOK_MS = 1000    /* interval at which a waiting caller checks whether the loop is blocked */
};

enum pg_listener_state {
    LISTENER_OFF,
    LISTENER_CONNECTING,
    LISTENER_LISTENING,   /* sends LISTEN for all channels, on a new connection */
    LISTENER_SUBSCRIBING, /* sends LISTEN for additional channels */
    LISTENER_IDLE,
    LISTENER_ASKED
};

struct pg_listener {
    struct watch watch; /* first, because pg_listener_ready() casts it to struct pg_listener */
    struct loop *loop;
    struct dial *dial; /* set in the state LISTENER_CONNECTING */
    PGconn *pg;
    enum pg_listener_state state;
    struct timer timer;
    int64_t asked_ms;  /* when the last query, LISTEN or attempt to connect began (monotonic) */
    int64_t asked_us;  /* when the last query was sent (monotonic) */
    int64_t theirs_us; /* PostgreSQL's clock in the response to this query; 0 before the response */
    int clock_level;   /* difference of the clocks: 0 small, 1 logged as warning, 2 as error */
    char mark[32];     /* of the session, see CHECK in pg_connect.c */
    bool down_logged;  /* a line in the log has reported that PostgreSQL does not respond */
    bool asks_pause;   /* the last query also called busbar_pause_reason(), if it exists */
    uint64_t called, listening; /* `calls` at the last message, and at the last LISTEN */
    pthread_mutex_t lock;       /* protects the members below */
    pthread_cond_t more_served;
    struct message subscribe;
    bool posted;            /* `subscribe` was posted and has not run yet */
    uint64_t calls, served; /* pg_listener_subscribe() calls: number begun, and number completed */
};

/* Module code reads these on any thread. There is one listener per process. */
static atomic_int_least64_t fresh_until_ms;
static atomic_int_least64_t latency = -1;
static atomic_int_least64_t silent_since_ms; /* 0 while PostgreSQL responds */
static atomic_int refusal;                   /* index in `no_writes`, from the last response */
static atomic_bool wanted; /* bb_signals_fresh_ms() was called since the last query */

int64_t pg_listener_fresh_ms(void)
{
    atomic_store_explicit(&wanted, true, memory_order_relaxed);
    return atomic_load_explicit(&fresh_until_ms, memory_order_acquire) - clock_mono_ms();
}

int64_t pg_listener_latency_ms(void)
{
    return atomic_load(&latency);
}

/* Records the problem for `busbar status`. */
static void pg_listener_note_problem(const struct pg_listener *listener, const char *reason)
{
    struct engine *engine = listener->loop->engine;

    BB_LOCKED(&engine->lock);
    snprintf(engine->connection_problem, sizeof engine->connection_problem, "%s",
             reason ? reason : "");
    pg_one_line(engine->connection_problem);
}

int64_t pg_listener_silent_ms(void)
{
    int64_t since = atomic_load_explicit(&silent_since_ms, memory_order_relaxed);

    return since ? clock_mono_ms() - since : 0;
}

/* ---- channels: of the modules of all generations ---- */

/* Calls `heard` of all channels with this name (NULL: of all channels) in all generations. */
static void pg_listener_tell(struct engine *engine, const char *name, const char *payload)
{
    struct generation *list[GENERATIONS_MAX];
    size_t count = engine_generations(engine, list);

    for (size_t i = 0; i < count; i++)
        for (size_t m = 0; m < list[i]->module_count; m++) {
            const struct core_module *module = &list[i]->modules[m];

            MODULE_EACH (bb_channel, channel, module->descriptor->channels) {
                if (name && strcmp(channel->name, name) != 0)
                    continue;
                struct activity before = activity_enter((struct activity){
                    .module = module->descriptor->name, .kind = "channel", .name = channel->name});

                channel->heard(module->handle.host.state, payload);
                activity_leave(before);
            }
        }
    engine_generations_release(list, count);
}

/*
 * Returns a text with a LISTEN for each channel of all generations, which the caller frees; NULL if
 * memory ran out. PostgreSQL ignores a LISTEN on a channel on which the session listens already.
 */
static char *pg_listener_channels(struct engine *engine, PGconn *pg)
{
    struct generation *list[GENERATIONS_MAX];
    size_t generations = engine_generations(engine, list), length;
    char *text = NULL;
    FILE *out = open_memstream(&text, &length);
    bool failed = !out || fputs("SELECT 1", out) < 0;

    for (size_t i = 0; i < generations; i++)
        for (size_t m = 0; m < list[i]->module_count; m++)
            MODULE_EACH (bb_channel, channel, list[i]->modules[m].descriptor->channels) {
                char *name = PQescapeIdentifier(pg, channel->name, strlen(channel->name));

                failed = failed || !name || fprintf(out, "; LISTEN %s", name) < 0;
                PQfreemem(name);
            }
    engine_generations_release(list, generations);
    if (out)
        failed = fclose(out) || failed;
    if (!failed)
        return text;
    free(text);
    return NULL;
}

/* ---- the connection ---- */

/* Wakes the callers of pg_listener_subscribe() whose calls have a number up to `call`. */
static void pg_listener_serve(struct pg_listener *listener, uint64_t call)
{
    BB_LOCKED(&listener->lock);
    listener->served = call;
    pthread_cond_broadcast(&listener->more_served);
}

static void pg_listener_again(struct pg_listener *listener, int64_t in_ms)
{
    timer_set(&listener->loop->timers, &listener->timer, listener->loop->now_ms + in_ms);
}

static void pg_listener_lost(struct pg_listener *listener, const char *reason)
{
    atomic_store(&silent_since_ms, 0);
    pg_listener_note_problem(listener, reason);
    if (!listener->down_logged)
        log_line(BB_WARN, "PostgreSQL does not respond", "reason", reason, NULL);
    listener->down_logged = true;
    loop_watch(listener->loop, &listener->watch, -1, 0);
    dial_free(listener->dial);
    PQfinish(listener->pg);
    listener->dial = NULL;
    listener->pg = NULL;
    listener->state = LISTENER_OFF;
    atomic_store(&fresh_until_ms, 0);
    atomic_store(&latency, -1);
    pg_listener_serve(listener, listener->called);
    pg_listener_again(listener, ASK_MS);
}

/* Closes the connection, because PostgreSQL has not responded (nor refused) since asked_ms. */
static void pg_listener_unanswered(struct pg_listener *listener, const char *reason)
{
    int64_t since = atomic_load(&silent_since_ms);

    pg_listener_lost(listener, reason);
    atomic_store(&silent_since_ms, since ? since : listener->asked_ms);
}

static void pg_listener_listen(struct pg_listener *listener, enum pg_listener_state state)
{
    listener->listening = listener->called;
    listener->asked_ms = clock_mono_ms();
    char *text = pg_listener_channels(listener->loop->engine, listener->pg);
    bool sent = text && PQsendQuery(listener->pg, text);

    free(text);
    if (!sent) {
        pg_listener_lost(listener, text ? PQerrorMessage(listener->pg) : "out of memory");
        return;
    }
    listener->state = state;
    pg_listener_again(listener, SILENT_MS);
    PQflush(listener->pg);
}

/*
 * A query that returns the server's time in microseconds since 1970, and why the server accepts no
 * writes, as an index in `no_writes`. It sees only wait events of sessions with the host's role.
 */
#define QUESTION                                                                                   \
    "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,"                            \
    " CASE WHEN pg_is_in_recovery() THEN 1"                                                        \
    " WHEN current_setting('default_transaction_read_only') = 'on' THEN 2"                         \
    " WHEN current_setting('synchronous_standby_names') = '' THEN 0"                               \
    " WHEN EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'"                      \
    " AND datname = current_database()"                                                            \
    " AND clock_timestamp() - state_change > interval '3 seconds') THEN 3 ELSE 0 END"
#define QUESTION_AND_PAUSE QUESTION ", busbar_pause_reason()"

static void pg_listener_ask(struct pg_listener *listener)
{
    const struct engine *engine = listener->loop->engine;
    char text[sizeof QUESTION_AND_PAUSE PG_WITH_MARK + sizeof listener->mark];

    listener->asked_us = clock_mono_us();
    listener->asked_ms = listener->asked_us / 1000;
    listener->theirs_us = 0;
    listener->asks_pause = atomic_load(&engine->pause) != PAUSE_UNKNOWN;
    snprintf(text, sizeof text,
             listener->asks_pause ? QUESTION_AND_PAUSE PG_WITH_MARK : QUESTION PG_WITH_MARK,
             listener->mark);
    if (!PQsendQuery(listener->pg, text) || PQflush(listener->pg) < 0) {
        pg_listener_lost(listener, PQerrorMessage(listener->pg));
        return;
    }
    listener->state = LISTENER_ASKED;
    pg_listener_again(listener, SILENT_MS);
}

/* Logs when the clocks differ, differ so much that the host is not ready, or agree again. */
static void pg_listener_note_clock(struct pg_listener *listener)
{
    int64_t offset = shared_clock_offset_ms(), off = llabs(offset);
    int level = off > SHARED_CLOCK_MOST_MS ? 2 : off >= SHARED_CLOCK_WARN_MS ? 1 : 0;
    char seconds[32];

    if (level == listener->clock_level || (!level && off > SHARED_CLOCK_WARN_MS / 2))
        return;
    listener->clock_level = level;
    snprintf(seconds, sizeof seconds, "%.1f", (double)offset / 1000);
    log_line(level == 2 ? BB_ERROR : BB_WARN,
             level ? "the host's clock differs from PostgreSQL's"
                   : "the host's clock agrees with PostgreSQL's again",
             "#ahead_s", seconds, "effect", level == 2 ? "not ready" : NULL, NULL);
}

static const char *const no_writes[] = {NULL, "the server is a standby",
                                        "transactions are read-only by default",
                                        "commits wait for a synchronous standby"};

static void pg_listener_note_refusal(int reason)
{
    if (reason < 0 || reason > 3 || atomic_exchange(&refusal, reason) == reason)
        return;
    if (reason)
        log_line(BB_WARN, "PostgreSQL accepts no writes", "reason", no_writes[reason], NULL);
    else
        log_line(BB_WARN, "PostgreSQL accepts writes again", NULL);
}

const char *pg_listener_no_writes(void)
{
    return no_writes[atomic_load(&refusal)];
}

/*
 * Records whether work is paused. After an error of class 42 work counts as paused: the
 * database has no busbar_pause_reason(), or a different one. Returns false for other errors.
 */
static bool pg_listener_note_pause(const struct pg_listener *listener, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    struct engine *engine = listener->loop->engine;

    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
        pause_note(engine, PQgetisnull(result, 0, 2) ? NULL : PQgetvalue(result, 0, 2));
    else if (sqlstate_has(state, SQLSTATE_TEXT))
        pause_note(engine, "cannot read from the database whether work is paused");
    else
        return false;
    return true;
}

/* Reads all results. Returns -1 after an error, or if the session's mark is lost (sets *shared). */
static int pg_listener_drain_results(struct pg_listener *listener, bool *complete, bool *shared)
{
    int status = 0;

    while (!PQisBusy(listener->pg)) {
        PGresult *result = PQgetResult(listener->pg);

        if (!result) {
            *complete = true;
            break;
        }
        ExecStatusType kind = PQresultStatus(result);
        bool asked = listener->state == LISTENER_ASKED;
        bool ok = kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK;
        bool unfit = asked && ok && !PQntuples(result);
        bool noted =
            asked && !unfit && listener->asks_pause && pg_listener_note_pause(listener, result);

        *shared = *shared || unfit;
        if (unfit || (!ok && !noted))
            status = -1;
        if (asked && kind == PGRES_TUPLES_OK && PQntuples(result) == 1) {
            listener->theirs_us = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
            if (PQnfields(result) > 1)
                pg_listener_note_refusal(*PQgetvalue(result, 0, 1) - '0');
        }
        PQclear(result);
    }
    return status;
}

static void pg_listener_ready(struct watch *watch, uint32_t events)
{
    struct pg_listener *listener = (struct pg_listener *)(void *)watch;
    bool complete = false, shared = false;
    PGnotify *notify;

    (void)events;
    if (!PQconsumeInput(listener->pg) || pg_listener_drain_results(listener, &complete, &shared)) {
        pg_listener_lost(listener, shared ? PG_SHARED : PQerrorMessage(listener->pg));
        return;
    }
    while ((notify = PQnotifies(listener->pg))) {
        pg_listener_tell(listener->loop->engine, notify->relname, notify->extra);
        PQfreemem(notify);
    }
    if (!complete || listener->state == LISTENER_IDLE)
        return;
    if (listener->state == LISTENER_ASKED) {
        /* PostgreSQL has answered a query, so bb_signals_fresh_ms() becomes FRESH_MS again. */
        int64_t now = listener->loop->now_ms;

        if (listener->down_logged) {
            log_line(BB_WARN, "PostgreSQL responds again", NULL);
            pg_listener_note_problem(listener, NULL);
        }
        listener->down_logged = false;
        if (listener->theirs_us > 0) {
            shared_clock_measured(listener->theirs_us, listener->asked_us, clock_mono_us());
            pg_listener_note_clock(listener);
        }
        atomic_store(&silent_since_ms, 0);
        atomic_store(&latency, clock_mono_ms() - listener->asked_ms);
        atomic_store_explicit(&fresh_until_ms, listener->asked_ms + FRESH_MS, memory_order_release);
        listener->state = LISTENER_IDLE;
        if (listener->called != listener->served)
            pg_listener_listen(listener, LISTENER_SUBSCRIBING);
        else
            timer_set(&listener->loop->timers, &listener->timer,
                      atomic_exchange_explicit(&wanted, false, memory_order_relaxed)
                          ? now + ASK_MS
                          : timer_beat(now, TIMER_IDLE_MS));
        return;
    }
    if (listener->state == LISTENER_LISTENING)
        pg_listener_tell(listener->loop->engine, NULL,
                         NULL); /* notifications sent before the LISTEN were missed */
    else
        pg_listener_serve(listener, listener->listening);
    listener->state = LISTENER_IDLE;
    pg_listener_ask(listener);
}

/* Called when the attempt to connect has ended. If it failed, `connection` is NULL. */
static void pg_listener_dialled(void *arg, void *connection, const char *problem)
{
    struct pg_listener *listener = arg;

    listener->dial = NULL;
    listener->pg = connection;
    if (!listener->pg && clock_mono_ms() - listener->asked_ms > REFUSED_MS)
        pg_listener_unanswered(listener, problem);
    else if (!listener->pg)
        pg_listener_lost(listener, problem);
    else if (loop_watch(listener->loop, &listener->watch, PQsocket(listener->pg), EPOLLIN))
        pg_listener_lost(listener, "the socket cannot be watched");
    else
        pg_listener_listen(listener, LISTENER_LISTENING);
}

static void pg_listener_connect(struct pg_listener *listener)
{
    unsigned char random[8];
    char hex[2 * sizeof random + 1];

    text_random(random, sizeof random);
    text_hex(random, sizeof random, hex);
    snprintf(listener->mark, sizeof listener->mark, "busbar %s", hex);
    listener->asked_ms = clock_mono_ms();
    listener->state = LISTENER_CONNECTING;
    struct generation *g = engine_generation(listener->loop->engine);

    listener->dial =
        pg_dial(listener->loop, g->host, NULL, listener->mark, pg_listener_dialled, listener);
    generation_release(g);
    if (!listener->dial)
        pg_listener_lost(listener, "no thread can be started");
}

static void pg_listener_timer(struct timer *timer)
{
    struct pg_listener *listener = BB_CONTAINER_OF(timer, struct pg_listener, timer);

    if (listener->state == LISTENER_OFF)
        pg_listener_connect(listener);
    else if (listener->state == LISTENER_IDLE)
        pg_listener_ask(listener);
    else
        pg_listener_unanswered(listener, "no response within the time limit");
}

/* Sends LISTEN for new channels, now or when the current query or connecting has ended. */
static void pg_listener_called(struct message *message)
{
    struct pg_listener *listener = BB_CONTAINER_OF(message, struct pg_listener, subscribe);

    pthread_mutex_lock(&listener->lock);
    listener->posted = false;
    listener->called = listener->calls;
    pthread_mutex_unlock(&listener->lock);
    if (listener->state == LISTENER_OFF || listener->state == LISTENER_CONNECTING)
        pg_listener_serve(listener, listener->called);
    else if (listener->state == LISTENER_IDLE)
        pg_listener_listen(listener, LISTENER_SUBSCRIBING);
}

void pg_listener_subscribe(struct pg_listener *listener)
{
    BB_LOCKED(&listener->lock);
    uint64_t call = ++listener->calls;

    if (!listener->posted)
        loop_post(listener->loop, &listener->subscribe);
    listener->posted = true;
    /* does not wait for a blocked loop, which will run the message when it resumes */
    while (listener->served < call && !atomic_load(&listener->loop->stands_ms))
        condition_wait(&listener->more_served, &listener->lock, clock_mono_ms() + LOOK_MS);
}

struct pg_listener *pg_listener_new(struct loop *loop)
{
    struct pg_listener *listener = calloc(1, sizeof *listener);

    if (!listener)
        return NULL;
    listener->watch = (struct watch){.fd = -1, .ready = pg_listener_ready};
    listener->loop = loop;
    listener->timer.fire = pg_listener_timer;
    listener->subscribe.run = pg_listener_called;
    pthread_mutex_init(&listener->lock, NULL);
    pthread_cond_init(&listener->more_served, NULL);
    pg_listener_connect(listener);
    return listener;
}

void pg_listener_free(struct pg_listener *listener)
{
    listener->down_logged = true; /* closed intentionally, so log nothing */
    pg_listener_lost(listener, NULL);
    timer_clear(&listener->loop->timers, &listener->timer);
    pthread_cond_destroy(&listener->more_served);
    pthread_mutex_destroy(&listener->lock);
    free(listener);
}
