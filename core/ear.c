#include "core/ear.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/log.h"
#include "core/text.h"

enum {
    ASK_MS = 250,   /* between two questions */
    FRESH_MS = 900, /* how long an answer counts, from when its question was sent */
    DEAF_MS = 900,  /* no answer for so long: a new connection */
    LISTEN_MAX = 4096
};

enum ear_state { EAR_OFF, EAR_CONNECTING, EAR_LISTENING, EAR_IDLE, EAR_ASKED };

struct ear {
    struct watch watch; /* first */
    struct loop *loop;
    struct pg_settings settings;
    PGconn *pg;
    enum ear_state state;
    struct timer timer;
    int64_t asked_ms;
    bool told; /* that PostgreSQL is away */
};

/* Read by module code on any thread, so not in the struct: there is one ear a process. */
static atomic_int_least64_t fresh_until_ms;
static atomic_int_least64_t latency = -1;

int64_t ear_fresh_ms(void)
{
    return atomic_load_explicit(&fresh_until_ms, memory_order_acquire) - clock_mono_ms();
}

int64_t ear_latency_ms(void)
{
    return atomic_load(&latency);
}

static void ear_again(struct ear *ear, int64_t in_ms)
{
    timer_set(&ear->loop->timers, &ear->timer, ear->loop->now_ms + in_ms);
}

static void ear_lost(struct ear *ear, const char *reason)
{
    if (!ear->told)
        log_line(BB_WARN, "PostgreSQL does not answer", "reason", reason, NULL);
    ear->told = true;
    loop_watch(ear->loop, &ear->watch, -1, 0);
    PQfinish(ear->pg);
    ear->pg = NULL;
    ear->state = EAR_OFF;
    atomic_store(&fresh_until_ms, 0);
    atomic_store(&latency, -1);
    ear_again(ear, ASK_MS);
}

static void ear_want(struct ear *ear, uint32_t events)
{
    int fd = PQsocket(ear->pg);

    if (fd != ear->watch.fd)
        loop_watch(ear->loop, &ear->watch, -1, 0);
    if (loop_watch(ear->loop, &ear->watch, fd, events))
        ear_lost(ear, "the socket cannot be watched");
}

/* Calls every channel of that name (NULL: all of them). */
static void tell(struct ear *ear, const char *name, const char *payload)
{
    struct generation *generation = engine_generation(ear->loop->engine);

    for (size_t i = 0; i < generation->module_count; i++) {
        const struct core_module *module = &generation->modules[i];
        const struct bb_channel *channels = MODULE_ROWS(bb_channel, module->face->channels);

        for (size_t j = 0; j < module->face->channels.count; j++) {
            if (!name || !strcmp(channels[j].name, name))
                channels[j].heard(module->handle.host.state, payload);
        }
    }
    generation_release(generation);
}

/* LISTEN for each channel, in one text. Names come from the modules' tables, not from outside. */
static int listen_text(struct ear *ear, char *text, size_t size)
{
    struct generation *generation = engine_generation(ear->loop->engine);
    size_t used = (size_t)snprintf(text, size, "SELECT 1");

    for (size_t i = 0; i < generation->module_count; i++) {
        const struct core_module *module = &generation->modules[i];
        const struct bb_channel *channels = MODULE_ROWS(bb_channel, module->face->channels);

        for (size_t j = 0; j < module->face->channels.count && used < size; j++) {
            char *name = PQescapeIdentifier(ear->pg, channels[j].name, strlen(channels[j].name));

            used += (size_t)snprintf(text + used, size - used, "; LISTEN %s", name ? name : "\"\"");
            PQfreemem(name);
        }
    }
    generation_release(generation);
    return used < size ? 0 : -1;
}

static void ear_listen(struct ear *ear)
{
    char text[LISTEN_MAX];

    if (PQsetnonblocking(ear->pg, 1) || listen_text(ear, text, sizeof text) ||
        !PQsendQuery(ear->pg, text)) {
        ear_lost(ear, PQerrorMessage(ear->pg));
        return;
    }
    ear->state = EAR_LISTENING;
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

/* The answer is here, and with it everything that was notified before the question. */
static void ear_answered(struct ear *ear)
{
    if (ear->state == EAR_ASKED) {
        if (ear->told)
            log_line(BB_WARN, "PostgreSQL answers again", NULL);
        ear->told = false;
        atomic_store(&latency, clock_mono_ms() - ear->asked_ms);
        atomic_store_explicit(&fresh_until_ms, ear->asked_ms + FRESH_MS, memory_order_release);
        ear->state = EAR_IDLE;
        ear_again(ear, ASK_MS);
        return;
    }
    tell(ear, NULL, NULL); /* what was missed before the LISTEN */
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
        tell(ear, notify->relname, notify->extra);
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
        ear_listen(ear);
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
    const char *keys[16], *values[16];
    char options[256];

    pg_conninfo(&ear->settings, keys, values, options, sizeof options);
    ear->pg = PQconnectStartParams(keys, values, 1);
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
    else
        ear_lost(ear, ear->state == EAR_CONNECTING ? "no connection within the time limit"
                                                   : "no answer within the time limit");
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
