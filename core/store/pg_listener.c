#include "core/store/pg_listener.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/lib/condition.h"
#include "core/lib/log.h"
#include "core/lib/shared_clock.h"
#include "core/lib/sqlstate.h"
#include "core/lib/text.h"
#include "core/module/pause.h"
#include "core/store/pg_channel.h"

enum {
    ASK_MS = 250,    /* interval between two queries while the result is in use */
    FRESH_MS = 900,  /* validity of a response, from the time its query was sent */
    SILENT_MS = 900, /* reconnect after this time without a response */
    LOOK_MS = 1000   /* interval for checking whether the loop is blocked, while waiting for it */
};

enum pg_listener_state {
    LISTENER_OFF,
    LISTENER_CONNECTING,
    LISTENER_CHECKING,    /* checks the properties of the session */
    LISTENER_LISTENING,   /* to all channels, after a connection was lost */
    LISTENER_SUBSCRIBING, /* to additional channels, without having missed anything */
    LISTENER_IDLE,
    LISTENER_ASKED
};

struct pg_listener {
    struct watch watch; /* first member */
    struct loop *loop;
    struct pg_settings settings;
    PGconn *pg;
    enum pg_listener_state state;
    struct timer timer;
    int64_t asked_ms, asked_us;
    int64_t theirs_us;              /* PostgreSQL's clock in the last response; 0: none yet */
    int clock_level;                /* the last logged state of the clocks: see note_clock() */
    char mark[32];                  /* mark of its session, see pg_check_text() */
    char problem[512];              /* problem of the session */
    unsigned turn;                  /* see resolver_rotate() */
    bool told;                      /* logged that PostgreSQL is unavailable */
    bool asks_pause;                /* the last query also asked for the pause reason */
    struct subscribing *subscriber; /* the caller that waits in pg_listener_subscribe() */
};

/* Read by module code on any thread, so not in the struct: there is one listener per process. */
static atomic_int_least64_t fresh_until_ms;
static atomic_int_least64_t latency = -1;
static atomic_int_least64_t silent_since_ms; /* 0: not silent */
static atomic_bool wanted;                   /* used since the last query */

int64_t pg_listener_fresh_ms(void)
{
    atomic_store_explicit(&wanted, true, memory_order_relaxed);
    return atomic_load_explicit(&fresh_until_ms, memory_order_acquire) - clock_mono_ms();
}

int64_t pg_listener_latency_ms(void)
{
    return atomic_load(&latency);
}

/* For `busbar status`. */
static pthread_mutex_t problem_lock = PTHREAD_MUTEX_INITIALIZER;
static char last_problem[512];

void pg_listener_problem(char *out, size_t size)
{
    pthread_mutex_lock(&problem_lock);
    snprintf(out, size, "%s", last_problem);
    pthread_mutex_unlock(&problem_lock);
}

static void note_problem(const char *reason)
{
    pthread_mutex_lock(&problem_lock);
    snprintf(last_problem, sizeof last_problem, "%s", reason ? reason : "");
    for (char *at = last_problem; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    pthread_mutex_unlock(&problem_lock);
}

int64_t pg_listener_silent_ms(void)
{
    int64_t since = atomic_load_explicit(&silent_since_ms, memory_order_relaxed);

    return since ? clock_mono_ms() - since : 0;
}

/* Freed by the listener or the waiting caller, whichever finishes last. */
struct subscribing {
    struct message message; /* first */
    struct pg_listener *listener;
    atomic_uint holders;
    sem_t done;
    bool on_stack; /* out of memory: the caller must wait to the end */
};

static void subscribing_release(struct subscribing *subscribing)
{
    if (atomic_fetch_sub(&subscribing->holders, 1) != 1)
        return;
    sem_destroy(&subscribing->done);
    free(subscribing);
}

static void subscribed(struct pg_listener *listener)
{
    struct subscribing *subscriber = listener->subscriber;
    bool shared = subscriber && !subscriber->on_stack;

    listener->subscriber = NULL;
    if (subscriber)
        sem_post(&subscriber->done);
    if (shared)
        subscribing_release(subscriber);
}

static void pg_listener_again(struct pg_listener *listener, int64_t in_ms)
{
    timer_set(&listener->loop->timers, &listener->timer, listener->loop->now_ms + in_ms);
}

static void pg_listener_ask_again(struct pg_listener *listener)
{
    int64_t now = listener->loop->now_ms;
    bool soon = atomic_exchange_explicit(&wanted, false, memory_order_relaxed);

    timer_set(&listener->loop->timers, &listener->timer,
              soon ? now + ASK_MS : timer_beat(now, TIMER_IDLE_MS));
}

static void pg_listener_lost(struct pg_listener *listener, const char *reason)
{
    atomic_store(&silent_since_ms, 0);
    note_problem(reason);
    if (!listener->told)
        log_line(BB_WARN, "PostgreSQL does not answer", "reason", reason, NULL);
    listener->told = true;
    loop_watch(listener->loop, &listener->watch, -1, 0);
    PQfinish(listener->pg);
    listener->pg = NULL;
    listener->state = LISTENER_OFF;
    atomic_store(&fresh_until_ms, 0);
    atomic_store(&latency, -1);
    subscribed(listener);
    pg_listener_again(listener, ASK_MS);
}

/* PostgreSQL did not refuse, but did not respond either. */
static void pg_listener_unanswered(struct pg_listener *listener, const char *reason)
{
    int64_t since = atomic_load(&silent_since_ms);

    if (!since)
        since = listener->asked_ms ? listener->asked_ms : clock_mono_ms();
    pg_listener_lost(listener, reason);
    atomic_store(&silent_since_ms, since);
}

static void pg_listener_want(struct pg_listener *listener, uint32_t events)
{
    if (loop_watch_anew(listener->loop, &listener->watch, PQsocket(listener->pg), events))
        pg_listener_lost(listener, "the socket cannot be watched");
}

static void pg_listener_listen(struct pg_listener *listener, enum pg_listener_state state)
{
    if (pg_listener_send_listen(listener->loop->engine, listener->pg)) {
        pg_listener_lost(listener, PQerrorMessage(listener->pg));
        return;
    }
    listener->state = state;
    pg_listener_again(listener, SILENT_MS);
    PQflush(listener->pg);
    pg_listener_want(listener, EPOLLIN);
}

/* A query that returns the server's time in microseconds since 1970. */
#define QUESTION "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
#define QUESTION_AND_PAUSE QUESTION ", busbar_pause_reason()"

static void pg_listener_ask(struct pg_listener *listener)
{
    const struct engine *engine = listener->loop->engine;
    char text[PG_CHECK_SIZE];

    listener->asked_us = clock_mono_us();
    listener->asked_ms = listener->asked_us / 1000;
    listener->theirs_us = 0;
    listener->asks_pause = atomic_load(&engine->pause) != PAUSE_UNKNOWN; /* the function exists */
    pg_check_again_text(text, listener->asks_pause ? QUESTION_AND_PAUSE : QUESTION, listener->mark);
    if (!PQsendQuery(listener->pg, text) || PQflush(listener->pg) < 0) {
        pg_listener_lost(listener, PQerrorMessage(listener->pg));
        return;
    }
    listener->state = LISTENER_ASKED;
    pg_listener_again(listener, SILENT_MS);
}

/*
 * Logs once when the clocks begin to differ, when the host becomes unready for that reason, and
 * when they agree again.
 */
static void note_clock(struct pg_listener *listener)
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
             "ahead_s", seconds, "effect", level == 2 ? "not ready" : NULL, NULL);
}

/* All notifications that were sent before the query have been received. */
static void pg_listener_vouch(struct pg_listener *listener)
{
    if (listener->told) {
        log_line(BB_WARN, "PostgreSQL answers again", NULL);
        note_problem(NULL);
    }
    listener->told = false;
    if (listener->theirs_us > 0) {
        shared_clock_measured(listener->theirs_us, listener->asked_us, clock_mono_us());
        note_clock(listener);
    }
    atomic_store(&silent_since_ms, 0);
    atomic_store(&latency, clock_mono_ms() - listener->asked_ms);
    atomic_store_explicit(&fresh_until_ms, listener->asked_ms + FRESH_MS, memory_order_release);
    listener->state = LISTENER_IDLE;
    if (listener->subscriber)
        pg_listener_listen(listener, LISTENER_SUBSCRIBING);
    else
        pg_listener_ask_again(listener);
}

/*
 * Checks the session before LISTEN, because a pooler that shares sessions would drop notifications.
 */
static void pg_listener_check(struct pg_listener *listener)
{
    unsigned char random[8];
    char text[PG_CHECK_SIZE], hex[2 * sizeof random + 1];

    text_random(random, sizeof random);
    text_hex(random, sizeof random, hex);
    snprintf(listener->mark, sizeof listener->mark, "busbar %s", hex);
    pg_check_text(text, listener->settings.statement_ms, listener->mark);
    if (!PQsendQuery(listener->pg, text)) {
        pg_listener_lost(listener, PQerrorMessage(listener->pg));
        return;
    }
    *listener->problem = '\0';
    listener->state = LISTENER_CHECKING;
    pg_listener_again(listener, SILENT_MS);
    PQflush(listener->pg);
    pg_listener_want(listener, EPOLLIN);
}

static void pg_listener_answered(struct pg_listener *listener)
{
    if (listener->state == LISTENER_ASKED) {
        pg_listener_vouch(listener);
        return;
    }
    if (listener->state == LISTENER_CHECKING) {
        pg_listener_listen(listener, LISTENER_LISTENING);
        return;
    }
    if (listener->state == LISTENER_LISTENING)
        pg_listener_tell(listener->loop->engine, NULL,
                         NULL); /* notifications sent before the LISTEN were missed */
    else
        subscribed(listener);
    listener->state = LISTENER_IDLE;
    pg_listener_ask(listener);
}

/*
 * Records the result. An error of class 42 means that the function does not exist, so the database
 * does not match the modules. Returns false if the result is neither.
 */
static bool note_pause(const struct pg_listener *listener, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    struct engine *engine = listener->loop->engine;

    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
        pause_note(engine, PQgetisnull(result, 0, 1) ? NULL : PQgetvalue(result, 0, 1));
    else if (sqlstate_has(state, SQLSTATE_TEXT))
        pause_note(engine, "the database has no readable switch for pausing");
    else
        return false;
    return true;
}

/* Whether the session does not, or no longer, have the requested properties; sets `problem`. */
static bool is_unfit(struct pg_listener *listener, const PGresult *result)
{
    if (listener->state == LISTENER_CHECKING)
        return !pg_check_passed(result, listener->problem, sizeof listener->problem);
    if (listener->state != LISTENER_ASKED || PQntuples(result))
        return false;
    snprintf(listener->problem, sizeof listener->problem, "%s", PG_CHECK_SHARED);
    return true;
}

/* Reads all results; -1 if one is an error. */
static int drain_results(struct pg_listener *listener, bool *complete)
{
    int status = 0;

    *complete = false;
    while (!PQisBusy(listener->pg)) {
        PGresult *result = PQgetResult(listener->pg);

        if (!result) {
            *complete = true;
            break;
        }
        ExecStatusType kind = PQresultStatus(result);
        bool asked = listener->state == LISTENER_ASKED && listener->asks_pause;
        bool ok = kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK;

        bool unfit = ok && is_unfit(listener, result);
        bool noted = asked && !unfit && note_pause(listener, result);

        if (unfit || (!ok && !noted))
            status = -1;
        if (kind == PGRES_TUPLES_OK && PQntuples(result) == 1)
            listener->theirs_us = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
        PQclear(result);
    }
    return status;
}

static void pg_listener_read(struct pg_listener *listener)
{
    PGnotify *notify;
    bool complete;

    if (!PQconsumeInput(listener->pg) || drain_results(listener, &complete)) {
        pg_listener_lost(listener,
                         *listener->problem ? listener->problem : PQerrorMessage(listener->pg));
        return;
    }
    while ((notify = PQnotifies(listener->pg))) {
        pg_listener_tell(listener->loop->engine, notify->relname, notify->extra);
        PQfreemem(notify);
    }
    if (complete && listener->state != LISTENER_IDLE)
        pg_listener_answered(listener);
}

static void pg_listener_ready(struct watch *watch, uint32_t events)
{
    struct pg_listener *listener = (struct pg_listener *)(void *)watch;

    (void)events;
    if (listener->state != LISTENER_CONNECTING) {
        pg_listener_read(listener);
        return;
    }
    switch (PQconnectPoll(listener->pg)) {
    case PGRES_POLLING_OK:
        pg_listener_check(listener);
        break;
    case PGRES_POLLING_READING:
        pg_listener_want(listener, EPOLLIN);
        break;
    case PGRES_POLLING_WRITING:
        pg_listener_want(listener, EPOLLOUT);
        break;
    default:
        pg_listener_lost(listener, PQerrorMessage(listener->pg));
    }
}

static void pg_listener_connect(struct pg_listener *listener)
{
    struct pg_target place;
    enum resolver_state found = pg_target(&listener->settings, &place);

    if (found == RESOLVER_LATER) {
        pg_listener_again(listener, NAMES_AGAIN_MS);
        return;
    }
    if (found == RESOLVER_NONE) {
        pg_listener_lost(listener, "its name is not found");
        return;
    }
    listener->turn = place.found.turn;
    listener->pg = pg_target_connect(&place);
    listener->state = LISTENER_CONNECTING;
    if (!listener->pg || PQstatus(listener->pg) == CONNECTION_BAD) {
        pg_listener_lost(listener, PQerrorMessage(listener->pg));
        return;
    }
    PQsetNoticeReceiver(listener->pg, pg_drop_notice, NULL);
    pg_listener_again(listener, listener->settings.connect_ms);
    pg_listener_want(listener, EPOLLOUT);
}

static void pg_listener_timer(struct timer *timer)
{
    struct pg_listener *listener = BB_CONTAINER_OF(timer, struct pg_listener, timer);

    if (listener->state == LISTENER_OFF)
        pg_listener_connect(listener);
    else if (listener->state == LISTENER_IDLE)
        pg_listener_ask(listener);
    else if (listener->state != LISTENER_CONNECTING)
        pg_listener_unanswered(listener, "no answer within the time limit");
    else {
        pg_rotate(listener->settings.resolver, listener->turn, listener->pg);
        pg_listener_unanswered(listener, "no connection within the time limit");
    }
}

/* If the connection is not established yet, it will listen on all channels anyway. */
static void subscribe(struct message *message)
{
    struct subscribing *subscribing = (struct subscribing *)(void *)message;
    struct pg_listener *listener = subscribing->listener;

    subscribed(listener); /* a previous caller that has stopped waiting */
    listener->subscriber = subscribing;
    if (listener->state == LISTENER_OFF || listener->state == LISTENER_CONNECTING ||
        listener->state == LISTENER_CHECKING)
        subscribed(listener);
    else if (listener->state == LISTENER_IDLE)
        pg_listener_listen(listener, LISTENER_SUBSCRIBING);
}

/* Waits until it is done, or the loop is blocked: then the loop does it when it resumes. */
static void wait_for(struct subscribing *subscribing, const struct loop *loop)
{
    int failed;

    do {
        failed = semaphore_wait(&subscribing->done, clock_mono_ms() + LOOK_MS);
    } while (failed && (subscribing->on_stack || !atomic_load(&loop->stands_ms)));
}

void pg_listener_subscribe(struct pg_listener *listener)
{
    struct subscribing own = {.on_stack = true}, *subscribing = calloc(1, sizeof *subscribing);

    if (!subscribing)
        subscribing = &own;
    subscribing->message.run = subscribe;
    subscribing->listener = listener;
    atomic_init(&subscribing->holders, 2);
    sem_init(&subscribing->done, 0, 0);
    loop_post(listener->loop, &subscribing->message);
    wait_for(subscribing, listener->loop);
    if (subscribing == &own)
        sem_destroy(&own.done);
    else
        subscribing_release(subscribing);
}

struct pg_listener *pg_listener_new(struct loop *loop, const struct pg_settings *settings)
{
    struct pg_listener *listener = calloc(1, sizeof *listener);

    if (!listener)
        return NULL;
    listener->watch = (struct watch){.fd = -1, .ready = pg_listener_ready};
    listener->loop = loop;
    listener->settings = *settings;
    listener->timer.fire = pg_listener_timer;
    pg_listener_connect(listener);
    return listener;
}

void pg_listener_free(struct pg_listener *listener)
{
    listener->told = true; /* closed intentionally, so log nothing */
    pg_listener_lost(listener, NULL);
    timer_clear(&listener->loop->timers, &listener->timer);
    free(listener);
}
