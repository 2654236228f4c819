#include "core/postgres/ear.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "core/base/log.h"
#include "core/base/text.h"
#include "core/postgres/ear_channel.h"

enum {
    ASK_MS = 250,   /* between two questions, while somebody wants to know */
    FRESH_MS = 900, /* how long an answer counts, from when its question was sent */
    DEAF_MS = 900   /* no answer for so long: a new connection */
};

enum ear_state {
    EAR_OFF,
    EAR_CONNECTING,
    EAR_LISTENING, /* to all, after a time of deafness */
    EAR_LEARNING,  /* to more, without having missed anything */
    EAR_IDLE,
    EAR_ASKED
};

struct ear {
    struct watch watch; /* first */
    struct loop *loop;
    struct pg_settings settings;
    PGconn *pg;
    enum ear_state state;
    struct timer timer;
    int64_t asked_ms;
    unsigned turn;  /* see names_pass_by() */
    bool told;      /* that PostgreSQL is away */
    sem_t *learner; /* who waits in ear_learn() */
};

/* Read by module code on any thread, so not in the struct: there is one ear a process. */
static atomic_int_least64_t fresh_until_ms;
static atomic_int_least64_t latency = -1;
static atomic_int_least64_t silent_since_ms; /* 0: not silent */
static atomic_bool wanted;                   /* somebody has looked since the last question */

int64_t ear_fresh_ms(void)
{
    atomic_store_explicit(&wanted, true, memory_order_relaxed);
    return atomic_load_explicit(&fresh_until_ms, memory_order_acquire) - clock_mono_ms();
}

int64_t ear_latency_ms(void)
{
    return atomic_load(&latency);
}

int64_t ear_silent_ms(void)
{
    int64_t since = atomic_load_explicit(&silent_since_ms, memory_order_relaxed);

    return since ? clock_mono_ms() - since : 0;
}

static void learnt(struct ear *ear)
{
    if (ear->learner)
        sem_post(ear->learner);
    ear->learner = NULL;
}

static void ear_again(struct ear *ear, int64_t in_ms)
{
    timer_set(&ear->loop->timers, &ear->timer, ear->loop->now_ms + in_ms);
}

static void ear_ask_again(struct ear *ear)
{
    int64_t now = ear->loop->now_ms;
    bool soon = atomic_exchange_explicit(&wanted, false, memory_order_relaxed);

    timer_set(&ear->loop->timers, &ear->timer,
              soon ? now + ASK_MS : timer_beat(now, TIMER_IDLE_MS));
}

static void ear_lost(struct ear *ear, const char *reason)
{
    atomic_store(&silent_since_ms, 0);
    if (!ear->told)
        log_line(BB_WARN, "PostgreSQL does not answer", "reason", reason, NULL);
    ear->told = true;
    loop_watch(ear->loop, &ear->watch, -1, 0);
    PQfinish(ear->pg);
    ear->pg = NULL;
    ear->state = EAR_OFF;
    atomic_store(&fresh_until_ms, 0);
    atomic_store(&latency, -1);
    learnt(ear);
    ear_again(ear, ASK_MS);
}

/* PostgreSQL did not refuse, it said nothing. */
static void ear_unanswered(struct ear *ear, const char *reason)
{
    int64_t since = atomic_load(&silent_since_ms);

    if (!since)
        since = ear->asked_ms ? ear->asked_ms : clock_mono_ms();
    ear_lost(ear, reason);
    atomic_store(&silent_since_ms, since);
}

static void ear_want(struct ear *ear, uint32_t events)
{
    if (loop_watch_anew(ear->loop, &ear->watch, PQsocket(ear->pg), events))
        ear_lost(ear, "the socket cannot be watched");
}

static void ear_listen(struct ear *ear, enum ear_state state)
{
    if (ear_send_listen(ear->loop->engine, ear->pg)) {
        ear_lost(ear, PQerrorMessage(ear->pg));
        return;
    }
    ear->state = state;
    ear_again(ear, DEAF_MS);
    PQflush(ear->pg);
    ear_want(ear, EPOLLIN);
}

static void ear_ask(struct ear *ear)
{
    ear->asked_ms = clock_mono_ms();
    if (!PQsendQuery(ear->pg, "SELECT 1") || PQflush(ear->pg) < 0) {
        ear_lost(ear, PQerrorMessage(ear->pg));
        return;
    }
    ear->state = EAR_ASKED;
    ear_again(ear, DEAF_MS);
}

/* Everything that was notified before the question has been heard. */
static void ear_vouch(struct ear *ear)
{
    if (ear->told)
        log_line(BB_WARN, "PostgreSQL answers again", NULL);
    ear->told = false;
    atomic_store(&silent_since_ms, 0);
    atomic_store(&latency, clock_mono_ms() - ear->asked_ms);
    atomic_store_explicit(&fresh_until_ms, ear->asked_ms + FRESH_MS, memory_order_release);
    ear->state = EAR_IDLE;
    if (ear->learner)
        ear_listen(ear, EAR_LEARNING);
    else
        ear_ask_again(ear);
}

static void ear_answered(struct ear *ear)
{
    if (ear->state == EAR_ASKED) {
        ear_vouch(ear);
        return;
    }
    if (ear->state == EAR_LISTENING)
        ear_tell(ear->loop->engine, NULL, NULL); /* what was missed before the LISTEN */
    else
        learnt(ear);
    ear->state = EAR_IDLE;
    ear_ask(ear);
}

/* Reads results to the end; -1 on an error among them. */
static int drain_results(struct ear *ear, bool *complete)
{
    int status = 0;

    *complete = false;
    while (!PQisBusy(ear->pg)) {
        PGresult *result = PQgetResult(ear->pg);

        if (!result) {
            *complete = true;
            break;
        }
        ExecStatusType kind = PQresultStatus(result);
        if (kind != PGRES_TUPLES_OK && kind != PGRES_COMMAND_OK)
            status = -1;
        PQclear(result);
    }
    return status;
}

static void ear_read(struct ear *ear)
{
    PGnotify *notify;
    bool complete;

    if (!PQconsumeInput(ear->pg) || drain_results(ear, &complete)) {
        ear_lost(ear, PQerrorMessage(ear->pg));
        return;
    }
    while ((notify = PQnotifies(ear->pg))) {
        ear_tell(ear->loop->engine, notify->relname, notify->extra);
        PQfreemem(notify);
    }
    if (complete && ear->state != EAR_IDLE)
        ear_answered(ear);
}

static void ear_ready(struct watch *watch, uint32_t events)
{
    struct ear *ear = (struct ear *)(void *)watch;

    (void)events;
    if (ear->state != EAR_CONNECTING) {
        ear_read(ear);
        return;
    }
    switch (PQconnectPoll(ear->pg)) {
    case PGRES_POLLING_OK:
        ear_listen(ear, EAR_LISTENING);
        break;
    case PGRES_POLLING_READING:
        ear_want(ear, EPOLLIN);
        break;
    case PGRES_POLLING_WRITING:
        ear_want(ear, EPOLLOUT);
        break;
    default:
        ear_lost(ear, PQerrorMessage(ear->pg));
    }
}

static void ear_connect(struct ear *ear)
{
    struct pg_place place;
    enum names_state names = pg_place(&ear->settings, &place);

    if (names == NAMES_LATER) {
        ear_again(ear, NAMES_AGAIN_MS);
        return;
    }
    if (names == NAMES_NONE) {
        ear_lost(ear, "its name is not found");
        return;
    }
    ear->turn = place.found.turn;
    ear->pg = pg_place_connect(&place);
    ear->state = EAR_CONNECTING;
    if (!ear->pg || PQstatus(ear->pg) == CONNECTION_BAD) {
        ear_lost(ear, PQerrorMessage(ear->pg));
        return;
    }
    PQsetNoticeReceiver(ear->pg, pg_drop_notice, NULL);
    ear_again(ear, ear->settings.connect_ms);
    ear_want(ear, EPOLLOUT);
}

static void ear_timer(struct timer *timer)
{
    struct ear *ear = (struct ear *)(void *)((char *)timer - offsetof(struct ear, timer));

    if (ear->state == EAR_OFF)
        ear_connect(ear);
    else if (ear->state == EAR_IDLE)
        ear_ask(ear);
    else if (ear->state != EAR_CONNECTING)
        ear_unanswered(ear, "no answer within the time limit");
    else {
        pg_pass_by(ear->settings.names, ear->turn, ear->pg);
        ear_unanswered(ear, "no connection within the time limit");
    }
}

struct lesson {
    struct message message; /* first */
    struct ear *ear;
    sem_t done;
};

/* A connection that is still to come listens to all that is there by then. */
static void learn(struct message *message)
{
    struct lesson *lesson = (struct lesson *)(void *)message;
    struct ear *ear = lesson->ear;

    ear->learner = &lesson->done;
    if (ear->state == EAR_OFF || ear->state == EAR_CONNECTING)
        learnt(ear);
    else if (ear->state == EAR_IDLE)
        ear_listen(ear, EAR_LEARNING);
}

void ear_learn(struct ear *ear)
{
    struct lesson lesson = {.message.run = learn, .ear = ear};

    sem_init(&lesson.done, 0, 0);
    loop_post(ear->loop, &lesson.message);
    while (sem_wait(&lesson.done)) /* interrupted */
        ;
    sem_destroy(&lesson.done);
}

struct ear *ear_new(struct loop *loop, const struct pg_settings *settings)
{
    struct ear *ear = calloc(1, sizeof *ear);

    if (!ear)
        return NULL;
    ear->watch = (struct watch){.fd = -1, .ready = ear_ready};
    ear->loop = loop;
    ear->settings = *settings;
    ear->timer.fire = ear_timer;
    ear_connect(ear);
    return ear;
}

void ear_free(struct ear *ear)
{
    ear->told = true; /* it is we who leave */
    ear_lost(ear, NULL);
    timer_clear(&ear->loop->timers, &ear->timer);
    free(ear);
}
