#include "pg_script.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/lib/arena.h"

/* ---- messages of the server ------------------------------------------------------------------ */

enum { BODY = 1024, TEXT_OID = 25, SQLSTATE = 5 };

/* A body that grows; a value that does not fit fails the test. */
struct body {
    char bytes[BODY];
    size_t length;
};

static void put(struct body *body, const void *bytes, size_t length)
{
    ck_assert_uint_le(body->length + length, sizeof body->bytes);
    memcpy(body->bytes + body->length, bytes, length);
    body->length += length;
}

static void put_text(struct body *body, const char *text)
{
    put(body, text, strlen(text) + 1);
}

static void put_16(struct body *body, uint16_t number)
{
    number = htons(number);
    put(body, &number, sizeof number);
}

static void put_32(struct body *body, uint32_t number)
{
    number = htonl(number);
    put(body, &number, sizeof number);
}

static void pg_say(struct script_conn *conn, char type, const void *body, size_t length)
{
    uint32_t whole = htonl((uint32_t)(length + sizeof whole));

    ck_assert_uint_le(conn->out_length + 1 + sizeof whole + length, sizeof conn->out);
    conn->out[conn->out_length++] = type;
    memcpy(conn->out + conn->out_length, &whole, sizeof whole);
    conn->out_length += sizeof whole;
    if (length)
        memcpy(conn->out + conn->out_length, body, length);
    conn->out_length += length;
}

static void say(struct script_conn *conn, char type, const struct body *body)
{
    pg_say(conn, type, body->bytes, body->length);
}

/* Responses are small enough for the socket's buffer, so one send() suffices. */
static void pg_say_flush(struct script_conn *conn)
{
    size_t length = conn->out_length;

    conn->out_length = 0;
    if (length)
        ck_assert_int_eq(send(conn->watch.fd, conn->out, length, MSG_NOSIGNAL), (ssize_t)length);
}

static void pg_say_setting(struct script_conn *conn, const char *name, const char *value)
{
    struct body body = {.length = 0};

    put_text(&body, name);
    put_text(&body, value);
    say(conn, 'S', &body);
}

static void pg_say_welcome(struct script_conn *conn, bool standby)
{
    struct body allowed = {.length = 0}, key = {.length = 0};

    put_32(&allowed, 0);
    say(conn, 'R', &allowed);
    pg_say_setting(conn, "server_version", "15.4");
    pg_say_setting(conn, "client_encoding", "UTF8");
    pg_say_setting(conn, "standard_conforming_strings", "on");
    pg_say_setting(conn, "TimeZone", "UTC");
    pg_say_setting(conn, "default_transaction_read_only", "off");
    pg_say_setting(conn, "in_hot_standby", standby ? "on" : "off");
    put_32(&key, conn->number);
    put_32(&key, 0);
    say(conn, 'K', &key);
    pg_say(conn, 'Z', "I", 1);
}

static void say_problem(struct script_conn *conn, char type, const char *severity,
                        const char *sqlstate, const char *function)
{
    struct body body = {.length = 0};
    char text[64];

    put(&body, "S", 1);
    put_text(&body, severity);
    put(&body, "V", 1);
    put_text(&body, severity);
    put(&body, "C", 1);
    put_text(&body, sqlstate);
    put(&body, "M", 1);
    snprintf(text, sizeof text, "the script says %s", sqlstate);
    put_text(&body, text);
    if (function) {
        put(&body, "R", 1);
        put_text(&body, function);
    }
    put_text(&body, "");
    say(conn, type, &body);
}

static void pg_say_warning(struct script_conn *conn, const char *sqlstate)
{
    say_problem(conn, 'N', "WARNING", sqlstate, NULL);
}

/* Warns that the wait for the synchronous standby was canceled. */
static void pg_say_unreplicated(struct script_conn *conn)
{
    say_problem(conn, 'N', "WARNING", "01000", "SyncRepWaitForLSN");
}

/* Everything up to the Sync is skipped, and an open transaction has failed. */
static void pg_say_error(struct script_conn *conn, bool fatal, const char *sqlstate)
{
    char state[SQLSTATE + 1];
    const char *function = strchr(sqlstate, ' ');

    snprintf(state, sizeof state, "%s", sqlstate);
    if (function)
        function++;
    say_problem(conn, 'E', fatal ? "FATAL" : "ERROR", state, function);
    conn->skips = true;
    if (conn->status == 'T')
        conn->status = 'E';
}

/* A SELECT has one column of text; other statements have no columns. */
static bool pg_say_is_select(const char *text)
{
    return !strncmp(text, "SELECT", strlen("SELECT"));
}

static void pg_say_columns(struct script_conn *conn)
{
    struct body body = {.length = 0};

    if (!pg_say_is_select(conn->bound)) {
        pg_say(conn, 'n', NULL, 0);
        return;
    }
    put_16(&body, 1);
    put_text(&body, "text");
    put_32(&body, 0); /* the column is not from a table */
    put_16(&body, 0);
    put_32(&body, TEXT_OID);
    put_16(&body, UINT16_MAX); /* a type of any length */
    put_32(&body, UINT32_MAX);
    put_16(&body, 0); /* as text */
    say(conn, 'T', &body);
}

static void pg_say_row(struct script_conn *conn, const char *value)
{
    struct body body = {.length = 0};

    put_16(&body, 1);
    put_32(&body, (uint32_t)strlen(value));
    put(&body, value, strlen(value));
    say(conn, 'D', &body);
}

/* ---- responses ------------------------------------------------------------------------------- */

/* Closes only the sending side and keeps reading: if unread bytes were left, the kernel would reset
 * the connection and discard the response. */
static void pg_script_hang_up(struct script_conn *conn)
{
    pg_say_flush(conn);
    shutdown(conn->watch.fd, SHUT_WR);
    conn->ended = true;
}

enum { LENGTH = 4, HEAD = 1 + LENGTH, PROTOCOL = 3 };

/* Returns the first line that has not been played and matches this message, or NULL. */
static const struct script_line *line_for(struct script_conn *conn, enum script_when when)
{
    struct pg_script *script = conn->script;

    for (size_t i = 0; i < script->count; i++) {
        const struct script_line *line = &script->lines[i];

        if (script->played[i] || line->when != when ||
            (line->text && !strstr(conn->bound, line->text)))
            continue;
        script->played[i] = true;
        return line;
    }
    return NULL;
}

static void hear(const struct script_conn *conn)
{
    struct pg_script *script = conn->script;

    ck_assert_uint_lt(script->heard_count, SCRIPT_HEARD);
    struct script_heard *heard = &script->heard[script->heard_count++];

    snprintf(heard->text, sizeof heard->text, "%s", conn->bound);
    heard->conn = conn->number;
}

static void refuse(struct script_conn *conn, enum script_when when, const struct script_line *line,
                   void (*usual)(struct script_conn *))
{
    bool fatal = line->act == SCRIPT_FATAL;

    pg_say_error(conn, fatal, line->say);
    if (fatal)
        pg_script_hang_up(conn);
    else if (when == SCRIPT_SYNC) /* a Sync gets its response even after an error */
        usual(conn);
}

static void cut(struct script_conn *conn, const struct script_line *line,
                void (*usual)(struct script_conn *))
{
    size_t from = conn->out_length;

    usual(conn);
    ck_assert_uint_le(from + line->bytes, conn->out_length);
    conn->out_length = from + line->bytes;
    if (line->act == SCRIPT_CLOSE)
        pg_script_hang_up(conn);
    conn->silent = true;
}

/* Responds as the script line for this message says, or else with usual(conn). */
static void answer(struct script_conn *conn, enum script_when when,
                   void (*usual)(struct script_conn *))
{
    const struct script_line *line = line_for(conn, when);

    switch (line ? line->act : SCRIPT_USUAL) {
    case SCRIPT_ERROR:
    case SCRIPT_FATAL:
        refuse(conn, when, line, usual);
        break;
    case SCRIPT_CLOSE:
    case SCRIPT_STALL:
        cut(conn, line, usual);
        break;
    case SCRIPT_JUNK:
        pg_say(conn, '~', NULL, 0);
        break;
    case SCRIPT_NOTHING:
        break;
    case SCRIPT_STATUS:
        conn->status = *line->say;
        usual(conn);
        break;
    case SCRIPT_SETTING:
        pg_say_setting(conn, "TimeZone", line->say);
        usual(conn);
        break;
    case SCRIPT_ALONE:
        pg_say_unreplicated(conn);
        usual(conn);
        break;
    case SCRIPT_STARVE:
        starved = true;
        usual(conn);
        break;
    default:
        usual(conn);
    }
}

static const char *text_of(const struct script_conn *conn, const char *name)
{
    for (size_t i = 0; i < conn->prepared_count; i++) {
        if (!strcmp(conn->prepared[i].name, name))
            return conn->prepared[i].text;
    }
    return NULL;
}

/* In a failed transaction only its end is accepted. */
static bool is_refused(struct script_conn *conn)
{
    if (conn->status != 'E' || !strcmp(conn->bound, "ROLLBACK") || !strcmp(conn->bound, "COMMIT"))
        return false;
    pg_say_error(conn, false, "25P02");
    return true;
}

static void prepared(struct script_conn *conn)
{
    pg_say(conn, '1', NULL, 0);
}

static void parse(struct script_conn *conn, const char *body)
{
    struct script_prepared *place = &conn->prepared[conn->prepared_count];

    ck_assert_uint_lt(conn->prepared_count, SCRIPT_PREPARED);
    ck_assert_ptr_null(text_of(conn, body)); /* otherwise the client's bookkeeping is wrong */
    snprintf(place->name, sizeof place->name, "%s", body);
    snprintf(place->text, sizeof place->text, "%s", body + strlen(body) + 1);
    conn->bound = place->text;
    if (is_refused(conn))
        return;
    answer(conn, SCRIPT_PARSE, prepared);
    conn->prepared_count += !conn->skips;
}

static void bound(struct script_conn *conn)
{
    pg_say(conn, '2', NULL, 0);
}

static void bind_(struct script_conn *conn, const char *body)
{
    conn->bound = text_of(conn, body + strlen(body) + 1);
    if (!conn->bound)
        pg_say_error(conn, false, "26000");
    else if (!is_refused(conn))
        answer(conn, SCRIPT_BIND, bound);
}

static void executed(struct script_conn *conn)
{
    bool ends = !strcmp(conn->bound, "COMMIT") || !strcmp(conn->bound, "ROLLBACK");
    const char *tag = conn->bound;

    if (!strcmp(conn->bound, "COMMIT") && conn->status == 'E')
        tag = "ROLLBACK";
    if (!strcmp(conn->bound, "BEGIN"))
        conn->status = 'T';
    if (ends)
        conn->status = 'I';
    if (pg_say_is_select(conn->bound))
        pg_say_row(conn, conn->bound);
    if (pg_say_is_select(conn->bound))
        tag = "SELECT 1";
    pg_say(conn, 'C', tag, strlen(tag) + 1);
}

static void execute(struct script_conn *conn)
{
    hear(conn);
    answer(conn, SCRIPT_EXECUTE, executed);
}

static void synced(struct script_conn *conn)
{
    conn->script->syncs++;
    conn->skips = false;
    pg_say(conn, 'Z', &conn->status, 1);
}

static void queried(struct script_conn *conn)
{
    pg_say_columns(conn);
    executed(conn);
}

/* Responds to a simple query (the listener sends these), including the response to a Sync. */
static void query(struct script_conn *conn, const char *body)
{
    struct script_prepared *place = &conn->prepared[SCRIPT_PREPARED - 1];

    snprintf(place->text, sizeof place->text, "%s", body);
    conn->bound = place->text;
    if (strstr(body, "set_config('busbar.session'")) { /* the host's own statement: always
                                                        * succeeds */
        pg_say_columns(conn);
        pg_say_row(conn, "");
        pg_say(conn, 'C', "SELECT 1", sizeof "SELECT 1");
        pg_say(conn, 'Z', &conn->status, 1);
        return;
    }
    hear(conn);
    answer(conn, SCRIPT_EXECUTE, queried);
    if (!conn->silent)
        answer(conn, SCRIPT_SYNC, synced);
}

static void welcome(struct script_conn *conn)
{
    pg_say_welcome(conn, conn->script->standby);
    conn->script->started++;
    conn->started = true;
}

static void take(struct script_conn *conn, char type, const char *body)
{
    if (type == 'S')
        answer(conn, SCRIPT_SYNC, synced);
    else if (conn->skips)
        return;
    else if (type == 'Q')
        query(conn, body);
    else if (type == 'P')
        parse(conn, body);
    else if (type == 'B')
        bind_(conn, body);
    else if (type == 'D')
        pg_say_columns(conn);
    else if (type == 'E')
        execute(conn);
    else
        ck_assert_int_eq(type, 'X');
}

static uint32_t number_at(const char *bytes)
{
    uint32_t number;

    memcpy(&number, bytes, sizeof number);
    return ntohl(number);
}

/* Responds to the first message in `bytes`; returns the message's length, or 0 if no message is
 * complete. */
static size_t pg_answer_one(struct script_conn *conn, const char *bytes, size_t length)
{
    size_t head = conn->started ? HEAD : LENGTH;

    if (length < head)
        return 0;
    size_t whole = head - LENGTH + number_at(bytes + head - LENGTH);

    ck_assert_uint_le(whole, sizeof conn->in);
    if (length < whole)
        return 0;
    conn->silent = conn->silent || (conn->script->mute && !conn->started);
    if (conn->silent || conn->ended)
        return whole;
    if (conn->started) {
        take(conn, *bytes, bytes + head);
    } else {
        ck_assert_uint_eq(number_at(bytes + LENGTH) >> 16, PROTOCOL);
        conn->bound = "";
        answer(conn, SCRIPT_STARTUP, welcome);
    }
    return whole;
}

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

/* ---- memory ---- */

/* The linker (-Wl,--wrap) makes other source files call these functions instead of the arena's. */
bool starved;

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): the linker's names */
void *__real_arena_alloc(struct arena *arena, size_t size);
void *__wrap_arena_alloc(struct arena *arena, size_t size);
int __real_arena_defer(struct arena *arena, void (*undo)(void *), void *arg);
int __wrap_arena_defer(struct arena *arena, void (*undo)(void *), void *arg);

void *__wrap_arena_alloc(struct arena *arena, size_t size)
{
    return starved ? NULL : __real_arena_alloc(arena, size);
}

int __wrap_arena_defer(struct arena *arena, void (*undo)(void *), void *arg)
{
    return starved ? -1 : __real_arena_defer(arena, undo, arg);
}
/* NOLINTEND(clang-diagnostic-reserved-identifier) */
