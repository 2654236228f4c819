#include "pg_answer.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "pg_say.h"
#include "starve.h"

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

size_t pg_answer_one(struct script_conn *conn, const char *bytes, size_t length)
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
