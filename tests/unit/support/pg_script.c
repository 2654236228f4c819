#include "pg_script.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pg_answer.h"
#include "pg_say.h"

/* ---- the script ------------------------------------------------------------------------------ */

void pg_script_add(struct pg_script *script, struct script_line line)
{
    ck_assert_uint_lt(script->count, SCRIPT_LINES);
    script->lines[script->count++] = line;
}

bool pg_script_is_over(const struct pg_script *script)
{
    for (size_t i = 0; i < script->count; i++) {
        if (!script->played[i])
            return false;
    }
    return true;
}

/* ---- executed statements --------------------------------------------------------------------- */

unsigned pg_script_times(const struct pg_script *script, const char *text)
{
    unsigned times = 0;

    for (size_t i = 0; i < script->heard_count; i++)
        times += strstr(script->heard[i].text, text) != NULL;
    return times;
}

unsigned pg_script_conn_of(const struct pg_script *script, const char *text)
{
    for (size_t i = script->heard_count; i-- > 0;) {
        if (strstr(script->heard[i].text, text))
            return script->heard[i].conn;
    }
    return 0;
}

/* ---- the connections ------------------------------------------------------------------------- */

/* Closes only the sending side and keeps reading: if unread bytes were left, the kernel would reset
 * the connection and discard the response. */
void pg_script_hang_up(struct script_conn *conn)
{
    pg_say_flush(conn);
    shutdown(conn->watch.fd, SHUT_WR);
    conn->ended = true;
}

static void close_conn(struct script_conn *conn)
{
    int fd = conn->watch.fd;

    if (fd < 0)
        return;
    loop_watch(conn->script->loop, &conn->watch, -1, 0);
    close(fd);
}

static void conn_ready(struct watch *watch, uint32_t events)
{
    struct script_conn *conn = (struct script_conn *)(void *)watch;
    ssize_t got = read(watch->fd, conn->in + conn->in_length, sizeof conn->in - conn->in_length);
    size_t used = 0, one;

    (void)events;
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        close_conn(conn);
        return;
    }
    conn->in_length += (size_t)got;
    while ((one = pg_answer_one(conn, conn->in + used, conn->in_length - used)))
        used += one;
    conn->in_length -= used;
    memmove(conn->in, conn->in + used, conn->in_length);
    if (!conn->ended)
        pg_say_flush(conn);
}

static void listener_ready(struct watch *watch, uint32_t events)
{
    struct pg_script *script = (struct pg_script *)(void *)watch;
    int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    (void)events;
    if (fd < 0)
        return;
    ck_assert_uint_lt(script->accepted, SCRIPT_CONNS);
    struct script_conn *conn = &script->conns[script->accepted++];

    *conn = (struct script_conn){.watch = {.fd = -1, .ready = conn_ready},
                                 .script = script,
                                 .number = script->accepted,
                                 .status = 'I'};
    ck_assert_int_eq(loop_watch(script->loop, &conn->watch, fd, EPOLLIN), 0);
}

void pg_script_begin(struct pg_script *script, struct loop *loop)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    *script = (struct pg_script){.watch = {.fd = -1, .ready = listener_ready}, .loop = loop};
    script->conns = calloc(SCRIPT_CONNS, sizeof *script->conns);
    ck_assert_ptr_nonnull(script->conns);
    ck_assert_int_eq(inet_pton(AF_INET, PG_SCRIPT_ADDRESS, &address.sin_addr), 1);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, SCRIPT_CONNS), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    script->port = ntohs(address.sin_port);
    ck_assert_int_eq(loop_watch(loop, &script->watch, fd, EPOLLIN), 0);
}

static void hang_up_all(struct pg_script *script)
{
    for (unsigned i = 0; i < script->accepted; i++) {
        if (script->conns[i].watch.fd >= 0)
            pg_script_hang_up(&script->conns[i]);
    }
}

void pg_script_end_sessions(struct pg_script *script, const char *sqlstate)
{
    for (unsigned i = 0; sqlstate && i < script->accepted; i++) {
        if (!strcmp(sqlstate, "57P02")) /* as PostgreSQL reports a crash */
            pg_say_warning(&script->conns[i], sqlstate);
        else
            pg_say_error(&script->conns[i], true, sqlstate);
    }
    hang_up_all(script);
}

void pg_script_go_away(struct pg_script *script)
{
    int fd = script->watch.fd;

    if (fd >= 0) {
        loop_watch(script->loop, &script->watch, -1, 0);
        close(fd);
    }
    hang_up_all(script);
}

void pg_script_end(struct pg_script *script)
{
    pg_script_go_away(script);
    for (unsigned i = 0; i < script->accepted; i++)
        close_conn(&script->conns[i]);
    free(script->conns);
    script->conns = NULL;
    for (size_t i = 0; i < script->count; i++)
        ck_assert_msg(script->played[i], "line %zu of the script was not played", i);
}
