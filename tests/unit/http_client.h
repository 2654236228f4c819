/*
 * Clients of the host of http_stage.h, in the loop of the test. They do what the test says and
 * nothing else; what a client says while the sockets are full goes out in later turns.
 */
#ifndef TESTS_UNIT_HTTP_CLIENT_H
#define TESTS_UNIT_HTTP_CLIENT_H

#include "core/http/http.h"

#define CLIENT_STRANGER "127.0.0.2" /* the host treats 127.0.0.1 alone as the machine itself */

struct client {
    struct watch watch; /* first */
    struct client *next;
    unsigned port; /* of this side */
    bool deaf;     /* it does not read */
    bool ended;    /* the host has closed its side, */
    bool reset;    /* or has reset the connection */
    char *out, *in;
    size_t out_length, in_length, in_room;
};

/* Connects from 127.0.0.1, or from this address. The client lives until clients_leave(). */
struct client *client_new(void);
struct client *client_from(const char *address);
/* The same with a small buffer, and it does not read before client_listen(). */
struct client *client_deaf(const char *address);
void client_listen(struct client *client);

void client_say(struct client *client, const char *text);
void client_say_bytes(struct client *client, const char *bytes, size_t length);
/* So many bytes, all of this kind. */
void client_say_many(struct client *client, char byte, size_t count);
/* Each byte only when the host has read the one before it. */
void client_spell(struct client *client, const char *text);

/* Ends this side; closes; resets. */
void client_shut(struct client *client);
void client_leave(struct client *client);
void client_reset(struct client *client);
void clients_leave(void);

/* How often the text is in what the client has read; what it has read, terminated by a NUL. */
size_t client_times(const struct client *client, const char *text);
const char *client_heard(const struct client *client);
/* Forgets what was read so far. */
void client_forget(struct client *client);

/* The connection on the host's side; NULL: there is none (any more, or yet). */
struct connection *client_connection(const struct client *client);

/* Waits until the text comes; until the host has read all that was said; until it has ended. */
void client_expect(struct client *client, const char *text);
void client_expect_read(struct client *client);
void client_expect_end(struct client *client);
/* Waits until its connection is in this stage. */
void client_expect_stage(struct client *client, enum connection_stage stage);

/* Sends the request and waits for the text, behind what was read so far. */
void client_ask(struct client *client, const char *request, const char *text);

#endif
