/*
 * A connection on which a test writes the bytes it wants and reads answers one at a time, framed
 * by their Content-Length. For what no client library would send, and for what must be fast.
 * Fails the test when an answer is no HTTP. Everything lives as long as the process.
 */
#ifndef TESTS_WIRE_H
#define TESTS_WIRE_H

#include "harness.h"

struct wire {
    int fd;
    char *bytes; /* received and not yet taken: bytes[taken..length) */
    size_t taken, length, room;
    bool ended; /* the host has closed its side */
    bool reset; /* … with a reset */
};

struct wire_answer {
    int status;
    char *headers; /* with the status line */
    char *body;    /* with a NUL behind it */
    size_t length;
};

struct wire *wire_open(const struct host *host);

/* From another loopback address, 127.0.0.x, and with a receive buffer of that size if not 0. */
struct wire *wire_open_from(const struct host *host, const char *address, int receive_bytes);

/* Closes; ends the connection with a reset if `hard`. */
void wire_close(struct wire *wire, bool hard);

/* Sends all; false where the host has closed or does not take it for 10 s. */
bool wire_send(struct wire *wire, const void *bytes, size_t length);
__attribute__((format(printf, 2, 3))) bool wire_say(struct wire *wire, const char *format, ...);

/* The next final answer (1xx are passed over); NULL: closed or silent for `ms`. */
struct wire_answer *wire_read(struct wire *wire, int ms);

/* The same; it must come, and be one that the API's reference has for the request `said`. */
struct wire_answer *wire_read_for(struct wire *wire, const char *said, int ms);

/* The same for the answer to a HEAD, which has no body whatever it declares. */
struct wire_answer *wire_read_head(struct wire *wire, int ms);

/* Whether the host closes within `ms`, whatever it sends before. */
bool wire_closes(struct wire *wire, int ms);

/* Whether bytes have come that no answer was made of, waiting at most `ms` for them. */
bool wire_has_more(struct wire *wire, int ms);

/* The first value of a header, or NULL. */
const char *wire_header(const struct wire_answer *answer, const char *name);

/* One request on a connection of its own, and the answer, which must come within 10 s and be in the
 * API's reference (reference.h). */
__attribute__((format(printf, 2, 3))) struct wire_answer *wire_ask(const struct host *host,
                                                                   const char *format, ...);

/* Whether the host (a struct host) answers health on a new connection within a second. */
bool wire_is_served(void *host);

/* Fails unless it is there, has that status, and is the service's error body. */
#define ck_wire_error(answer, status) wire_expect_error((answer), (status), __FILE__, __LINE__)
struct wire_answer *wire_expect_error(struct wire_answer *answer, int status, const char *file,
                                      int line);

#endif
