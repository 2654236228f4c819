/*
 * A connection on which a test writes arbitrary bytes and reads responses one at a time, framed by
 * their Content-Length. For requests that no client library would send, and for tests that must be
 * fast. Fails the test if a response is not valid HTTP. Everything lives as long as the process.
 */
#ifndef TESTS_WIRE_H
#define TESTS_WIRE_H

#include "harness.h"

struct wire {
    int fd;
    char *bytes; /* received but not taken: bytes[taken..length) */
    size_t taken, length, room;
    bool ended; /* the host has closed its side */
    bool reset; /* … with a reset */
};

struct wire_answer {
    int status;
    char *headers; /* including the status line */
    char *body;    /* terminated by a NUL */
    size_t length;
};

struct wire *wire_open(const struct host *host);

/* Connects from the loopback address 127.0.0.x; if the size is not 0, the socket has a receive
 * buffer of that size. */
struct wire *wire_open_from(const struct host *host, const char *address, int receive_bytes);

/* Requests a large response from a host, and reads only the first bytes of it, so that the host
 * cannot send all of it. Fails the test if its status is not 200. Returns the connection. */
int wire_stall(const struct host *host, const char *path, const char *token);

/* Closes the connection, with a reset if `hard`. */
void wire_close(struct wire *wire, bool hard);

/* Sends all bytes; returns false if the host has closed, or has not accepted them within 10 s. */
bool wire_send(struct wire *wire, const void *bytes, size_t length);
__attribute__((format(printf, 2, 3))) bool wire_say(struct wire *wire, const char *format, ...);

/* Returns the next final response (1xx are skipped); NULL if the host closed or was silent for
 * `ms` times PATIENCE (process.h). */
struct wire_answer *wire_read(struct wire *wire, int ms);

/* Like wire_read(), but fails the test unless a response comes and the API's reference has it for
 * the request `said`. */
struct wire_answer *wire_read_for(struct wire *wire, const char *said, int ms);

/* Returns whether the host closes within `ms` times PATIENCE; bytes that it sends before are
 * ignored. */
bool wire_closes(struct wire *wire, int ms);

/* Returns whether bytes have arrived that no response has used, waiting at most `ms` for them. */
bool wire_has_more(struct wire *wire, int ms);

/* The first value of a header, or NULL. */
const char *wire_header(const struct wire_answer *answer, const char *name);

/* Sends one request on a separate connection and returns the response, which must come in time and
 * be in the API's reference (reference.h). */
__attribute__((format(printf, 2, 3))) struct wire_answer *wire_ask(const struct host *host,
                                                                   const char *format, ...);

/*
 * Sends the bytes on a new connection and fails the test unless the responses have the statuses of
 * `expected`, such as "404 200", and each error has the service's body. If `expected` ends with
 * "end", the last response must announce the end of the connection, and the host must close it
 * without a reset. Returns the last response.
 */
struct wire_answer *wire_exchange(const struct host *host, const char *sent, const char *expected);

/* Returns whether the host answers a health request on a new connection within a second. */
bool wire_is_served(const struct host *host);

/* Fails the test unless there is a response with that status and the service's error body. */
#define ck_wire_error(answer, status) wire_expect_error((answer), (status), __FILE__, __LINE__)
struct wire_answer *wire_expect_error(struct wire_answer *answer, int status, const char *file,
                                      int line);

#endif
