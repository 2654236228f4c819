#include "pg_say.h"

#include <arpa/inet.h>
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

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

void pg_say(struct script_conn *conn, char type, const void *body, size_t length)
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
void pg_say_flush(struct script_conn *conn)
{
    size_t length = conn->out_length;

    conn->out_length = 0;
    if (length)
        ck_assert_int_eq(send(conn->watch.fd, conn->out, length, MSG_NOSIGNAL), (ssize_t)length);
}

void pg_say_setting(struct script_conn *conn, const char *name, const char *value)
{
    struct body body = {.length = 0};

    put_text(&body, name);
    put_text(&body, value);
    say(conn, 'S', &body);
}

void pg_say_welcome(struct script_conn *conn, bool standby)
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

void pg_say_warning(struct script_conn *conn, const char *sqlstate)
{
    say_problem(conn, 'N', "WARNING", sqlstate, NULL);
}

void pg_say_unreplicated(struct script_conn *conn)
{
    say_problem(conn, 'N', "WARNING", "01000", "SyncRepWaitForLSN");
}

void pg_say_error(struct script_conn *conn, bool fatal, const char *sqlstate)
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

bool pg_say_is_select(const char *text)
{
    return !strncmp(text, "SELECT", strlen("SELECT"));
}

void pg_say_columns(struct script_conn *conn)
{
    struct body body = {.length = 0};

    if (!pg_say_is_select(conn->bound)) {
        pg_say(conn, 'n', NULL, 0);
        return;
    }
    put_16(&body, 1);
    put_text(&body, "text");
    put_32(&body, 0); /* not from a table */
    put_16(&body, 0);
    put_32(&body, TEXT_OID);
    put_16(&body, UINT16_MAX); /* of any length */
    put_32(&body, UINT32_MAX);
    put_16(&body, 0); /* as text */
    say(conn, 'T', &body);
}

void pg_say_row(struct script_conn *conn, const char *value)
{
    struct body body = {.length = 0};

    put_16(&body, 1);
    put_32(&body, (uint32_t)strlen(value));
    put(&body, value, strlen(value));
    say(conn, 'D', &body);
}
