/*
 * Clients of the host of http_stage.h, on the test's own loop. A client does only what the test
 * asks for; bytes that do not fit into the sockets are sent in later iterations of the loop.
 */
#ifndef TESTS_UNIT_HTTP_CLIENT_H
#define TESTS_UNIT_HTTP_CLIENT_H

#include "http_stage.h"
#include "suite.h"

/* Makes the suite of a file that has `static struct client *client`, which each test finds
 * connected to a host with this section http (NULL: all defaults). */
#define CLIENT_SUITE(name, section)                                                                \
    static void name##_set_up(void)                                                                \
    {                                                                                              \
        http_stage_set_up();                                                                       \
        http_stage_open((section), 0, 0);                                                          \
        client = client_new();                                                                     \
    }                                                                                              \
    SUITE(name, .before_each = name##_set_up, .after_each = http_stage_tear_down,                  \
          .timeout_s = HTTP_STAGE_SECONDS)

/* GET() is a whole request; POST() is the beginning of a request with a body. */
#define GET(path) "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
#define POST(path) "POST " path " HTTP/1.1\r\nHost: h\r\n"

#define CLIENT_STRANGER "127.0.0.2" /* the host treats only 127.0.0.1 as local */

struct client {
    struct watch watch; /* must be first */
    struct client *next;
    unsigned port; /* the client's */
    bool deaf;     /* it does not read */
    bool ended;    /* the host has closed its side */
    bool reset;    /* the host has reset the connection */
    char *out, *in;
    size_t out_length, in_length, in_room;
};

/* Connect from 127.0.0.1, or from this address. The client lives until clients_leave(). */
struct client *client_new(void);
struct client *client_from(const char *address);
/* Connects with a small receive buffer; the client does not read before client_listen(). */
struct client *client_deaf(const char *address);
void client_listen(struct client *client);

void client_say(struct client *client, const char *text);
void client_say_bytes(struct client *client, const char *bytes, size_t length);
/* Sends the same byte this many times. */
void client_say_many(struct client *client, char byte, size_t count);
/* Sends the bytes one by one, each after the host has read the previous byte. */
void client_spell(struct client *client, const char *text);

/* client_shut() ends the client's side, client_leave() closes, client_reset() resets. */
void client_shut(struct client *client);
void client_leave(struct client *client);
void client_reset(struct client *client);
void clients_leave(void);

/* client_times() returns how often the text occurs in the bytes that the client has read;
 * client_heard() returns these bytes, terminated by a NUL. */
size_t client_times(const struct client *client, const char *text);
const char *client_heard(const struct client *client);
/* Discards the bytes read so far. */
void client_forget(struct client *client);

/* Returns the connection on the host's side; NULL if there is none (yet or any longer). */
struct connection *client_connection(const struct client *client);

/* Wait until the text has come; until the host has read all bytes; until the host has closed. */
void client_expect(struct client *client, const char *text);
void client_expect_read(struct client *client);
void client_expect_end(struct client *client);
/* Waits until the client's connection is in this stage. */
void client_expect_stage(struct client *client, enum connection_stage stage);

/* Discards the bytes read so far, sends the request and waits for the text. */
void client_ask(struct client *client, const char *request, const char *text);

#endif
