#include "core/store/pg_pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/lib/log.h"
#include "core/store/pg_listener.h"

enum { BACKOFF_FIRST_MS = 50, BACKOFF_MAX_MS = 500 };

static void conn_attempt(struct pg_conn *conn);

bool pg_conn_usable(const struct pg_conn *conn)
{
    return conn->state == PG_READY || conn->backoff_ms <= BACKOFF_FIRST_MS;
}

bool pg_conn_expected(const struct pg_conn *conn)
{
    return pg_conn_usable(conn) || pg_listener_latency_ms() >= 0;
}

static void pg_conn_want(struct pg_conn *conn, uint32_t events)
{
    struct loop *loop = conn->pool->pg->loop;
    int fd = PQsocket(conn->pg);
    int (*watch)(struct loop *, struct watch *, int, uint32_t) =
        conn->state == PG_CONNECTING ? loop_watch_anew : loop_watch;

    if (watch(loop, &conn->watch, fd, events))
        pg_conn_lost(conn, "the socket cannot be watched");
}

void pg_conn_flush_output(struct pg_conn *conn)
{
    int left = PQflush(conn->pg);

    if (left < 0)
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
    else
        pg_conn_want(conn, left ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* Events that affect all connections are logged as a warning for the first one only. */
static void tell(const struct pg_conn *conn, const char *what, const char *reason)
{
    bool alone = conn->astray || conn->misused || conn->outcome_unknown || conn->unreplicated;
    bool first = conn->pool->kind == PG_READ && !conn->index;
    enum bb_level level = alone || first ? BB_WARN : BB_DEBUG;
    char text[256];

    snprintf(text, sizeof text, "%s", reason ? reason : "");
    log_line(level, what, "reason", reason ? text : NULL, NULL);
}

static void forget_server(struct pg_conn *conn)
{
    loop_watch(conn->pool->pg->loop, &conn->watch, -1, 0);
    PQfinish(conn->pg);
    conn->pg = NULL;
    conn->state = PG_DOWN;
    conn->checking = false;
    conn->checked = false;
    conn->recycle = false;
    conn->outcome_unknown = false;
    conn->unreplicated = false;
    conn->astray = false;
    conn->misused = false;
    conn->spoilt = false;
    conn->dismissed = false;
    conn->prepared_count = 0;
    if (conn->prepared)
        memset(conn->prepared, 0, conn->prepared_room * sizeof *conn->prepared);
}

/*
 * Schedules a new attempt: at once after a loss, with increasing delays while the server is
 * unavailable.
 */
static void come_again(struct pg_conn *conn)
{
    struct loop *loop = conn->pool->pg->loop;

    timer_set(&loop->timers, &conn->timer, loop->now_ms + conn->backoff_ms);
    conn->backoff_ms = conn->backoff_ms ? conn->backoff_ms * 2 : BACKOFF_FIRST_MS;
    if (conn->backoff_ms > BACKOFF_MAX_MS)
        conn->backoff_ms = BACKOFF_MAX_MS;
}

void pg_conn_lost(struct pg_conn *conn, const char *reason)
{
    if (!conn->pg)
        return;
    bool was_ready = conn->state == PG_READY;

    /* log before the connection is freed, because the reason may be its text */
    if (was_ready)
        tell(conn, "connection to PostgreSQL lost", reason);
    else if (conn->backoff_ms == BACKOFF_FIRST_MS)
        tell(conn, "PostgreSQL cannot be reached", reason);
    forget_server(conn);
    pg_results_lost(conn);
    if (conn->pool->kind == PG_TX)
        pg_conn_fail_waiting(conn);
    if (conn->checked_out)
        pg_tx_lost(conn->checked_out);
    come_again(conn);
    pg_conn_leave(conn);
    if (!was_ready)
        pg_conn_fail_waiting(conn);
    pg_tx_despair(conn->pool);
}

/* Checks the session first: wrong settings would affect the answers to requests. */
static void conn_check(struct pg_conn *conn)
{
    char text[PG_CHECK_SIZE];

    pg_check_text(text, conn->pool->pg->settings.statement_ms, "busbar");
    if (PQsetnonblocking(conn->pg, 1) || !PQsendQuery(conn->pg, text)) {
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
        return;
    }
    conn->checking = true;
    pg_conn_flush_output(conn);
}

static void conn_connected(struct pg_conn *conn)
{
    struct loop *loop = conn->pool->pg->loop;

    timer_clear(&loop->timers, &conn->timer);
    if (!PQenterPipelineMode(conn->pg)) {
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
        return;
    }
    if (conn->backoff_ms > BACKOFF_FIRST_MS)
        tell(conn, "PostgreSQL is back", NULL);
    pg_conn_want(conn, EPOLLIN);
    if (!conn->pg)
        return;
    conn->state = PG_READY;
    conn->checking = false;
    pg_session_keep(conn);
    conn->backoff_ms = 0;
    conn->pool->pg->heard_ms = loop->now_ms;
    if (conn->pool->kind == PG_TX)
        pg_tx_hand_over(conn);
}

/*
 * Whether the server ends the session. It reports that as a fatal error, or, in an immediate
 * shutdown or after the crash of another session, as a warning.
 */
static bool is_dismissal(const PGresult *result)
{
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    return (severity && (!strcmp(severity, "FATAL") || !strcmp(severity, "PANIC"))) ||
           (code && (!strcmp(code, "57P01") || !strcmp(code, "57P02")));
}

/*
 * Handles unsolicited notices. After a dismissal the server closes the connection a moment later:
 * statements sent until then would not be executed, and the host would not notice.
 */
static void take_notice(void *arg, const PGresult *result)
{
    struct pg_conn *conn = arg;

    if (is_dismissal(result))
        conn->dismissed = true;
    if (pg_notice_is_unreplicated(result))
        conn->unreplicated = true;
}

static void conn_read_check(struct pg_conn *conn)
{
    char problem[512];

    if (!PQconsumeInput(conn->pg)) {
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
        return;
    }
    while (!PQisBusy(conn->pg)) {
        PGresult *result = PQgetResult(conn->pg);
        bool over = !result;

        if (result)
            conn->checked = pg_check_passed(result, problem, sizeof problem);
        PQclear(result);
        if (over && conn->checked)
            conn_connected(conn);
        else if (!conn->checked)
            pg_conn_lost(conn, over ? "the session could not be checked" : problem);
        if (over || !conn->checked)
            return;
    }
}

static void conn_progress(struct pg_conn *conn)
{
    switch (PQconnectPoll(conn->pg)) {
    case PGRES_POLLING_OK:
        conn_check(conn);
        break;
    case PGRES_POLLING_READING:
        pg_conn_want(conn, EPOLLIN);
        break;
    case PGRES_POLLING_WRITING:
        pg_conn_want(conn, EPOLLOUT);
        break;
    default:
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
    }
}

static void conn_ready(struct watch *watch, uint32_t events)
{
    struct pg_conn *conn = (struct pg_conn *)(void *)watch;

    if (conn->state == PG_CONNECTING && !conn->checking) {
        conn_progress(conn);
        return;
    }
    if (events & EPOLLOUT)
        pg_conn_flush_output(conn);
    if (conn->checking) {
        conn_read_check(conn);
        return;
    }
    if (conn->state == PG_READY && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        pg_results_read(conn);
}

static void conn_timer(struct timer *timer)
{
    struct pg_conn *conn = BB_CONTAINER_OF(timer, struct pg_conn, timer);

    if (conn->state != PG_CONNECTING) {
        conn_attempt(conn);
        return;
    }
    pg_rotate(conn->pool->pg->settings.resolver, conn->turn, conn->pg);
    pg_conn_lost(conn, "no connection within the time limit");
}

/* The address of the server is unknown. */
static void conn_nowhere(struct pg_conn *conn)
{
    if (conn->backoff_ms == BACKOFF_FIRST_MS)
        tell(conn, "PostgreSQL cannot be reached", "its name is not found");
    come_again(conn);
    pg_conn_fail_waiting(conn);
    pg_tx_despair(conn->pool);
}

static void conn_attempt(struct pg_conn *conn)
{
    struct pg *pg = conn->pool->pg;
    struct pg_target place;
    enum resolver_state found = pg_target(&pg->settings, &place);

    if (found == RESOLVER_LATER) {
        timer_set(&pg->loop->timers, &conn->timer, pg->loop->now_ms + NAMES_AGAIN_MS);
        return;
    }
    if (found == RESOLVER_NONE) {
        conn_nowhere(conn);
        return;
    }
    conn->turn = place.found.turn;
    conn->state = PG_CONNECTING;
    conn->pg = pg_target_connect(&place);
    if (!conn->pg) {
        conn->state = PG_DOWN;
        come_again(conn);
        return;
    }
    PQsetNoticeReceiver(conn->pg, take_notice, conn);
    timer_set(&pg->loop->timers, &conn->timer, pg->loop->now_ms + pg->settings.connect_ms);
    if (PQstatus(conn->pg) == CONNECTION_BAD)
        pg_conn_lost(conn, PQerrorMessage(conn->pg));
    else
        pg_conn_want(conn, EPOLLOUT);
}

int pg_conn_open(struct pg_conn *conn, struct pg_pool *pool, unsigned index)
{
    *conn = (struct pg_conn){.watch = {.fd = -1, .ready = conn_ready},
                             .pool = pool,
                             .index = index,
                             .queue.index = index,
                             .timer.fire = conn_timer};
    conn->prepared_room = 256;
    conn->prepared = calloc(conn->prepared_room, sizeof *conn->prepared);
    if (!conn->prepared)
        return -1;
    conn_attempt(conn);
    return 0;
}

void pg_conn_close(struct pg_conn *conn)
{
    if (!conn->pool)
        return;
    forget_server(conn);
    pg_results_lost(conn);
    pg_conn_fail_waiting(conn);
    timer_clear(&conn->pool->pg->loop->timers, &conn->timer);
    free(conn->prepared);
    free(conn->expects);
}
