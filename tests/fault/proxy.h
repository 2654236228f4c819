/*
 * A proxy between a host and what it depends on, that does what networks do: it delays, trickles,
 * freezes, closes one side, and cuts connections after so many bytes of an answer with a reset.
 *
 * One thread moves the bytes. A mode holds for all connections, those to come included, from the
 * next few milliseconds on. It lives as long as the test's process. Times are milliseconds.
 */
#ifndef TESTS_FAULT_PROXY_H
#define TESTS_FAULT_PROXY_H

enum proxy_mode {
    PROXY_PASS,           /* does nothing */
    PROXY_FREEZE,         /* accepts, and moves no byte */
    PROXY_DELAY,          /* keeps what the server says back for `amount` ms */
    PROXY_TRICKLE,        /* passes one byte of the server's in `amount` ms */
    PROXY_CUT,            /* resets a connection after `amount` more bytes of the server's */
    PROXY_IN_TRANSACTION, /* has the server say that its transactions are still open */
    PROXY_HALF_CLOSE,     /* when the server speaks, closes that direction and swallows the rest */
};

struct proxy;

/*
 * Listens on the socket `path`, or on a port of 127.0.0.1 if it is NULL; passes on to the unix
 * socket `target`. Fails the test when it cannot.
 */
struct proxy *proxy_start(const char *path, const char *target);

int proxy_port(const struct proxy *proxy);

void proxy_set(struct proxy *proxy, enum proxy_mode mode, long amount);

/* How many connections a PROXY_CUT or PROXY_HALF_CLOSE has met since proxy_set(). */
int proxy_hits(const struct proxy *proxy);

/* How many bytes of the server's it has passed on, ever. */
long long proxy_passed(const struct proxy *proxy);

#endif
