/*
 * A proxy between a host and a server it depends on, which behaves like a bad network: it delays,
 * trickles, freezes, closes one side, or resets connections after a number of bytes of a response.
 *
 * One thread moves the bytes. A mode applies to all present and future connections, within a few
 * milliseconds. A proxy lives as long as the test's process. Times are in milliseconds.
 */
#ifndef TESTS_FAULT_PROXY_H
#define TESTS_FAULT_PROXY_H

enum proxy_mode {
    PROXY_PASS,       /* passes everything on */
    PROXY_FREEZE,     /* accepts connections but moves no bytes */
    PROXY_DELAY,      /* delays the server's bytes by `amount` ms */
    PROXY_TRICKLE,    /* passes one of the server's bytes for every `amount` ms */
    PROXY_CUT,        /* resets a connection after `amount` more bytes from the server */
    PROXY_HALF_CLOSE, /* when the server sends, closes that direction and discards the rest */
};

struct proxy;

/*
 * Listens on the socket `path`, or on a port of 127.0.0.1 if it is NULL; forwards to the unix
 * socket `target`. Fails the test if it cannot.
 */
struct proxy *proxy_start(const char *path, const char *target);

int proxy_port(const struct proxy *proxy);

void proxy_set(struct proxy *proxy, enum proxy_mode mode, long amount);

/* Returns how many connections PROXY_CUT or PROXY_HALF_CLOSE has ended since proxy_set(). */
int proxy_hits(const struct proxy *proxy);

/* Returns how many of the server's bytes the proxy has passed on since its start. */
long long proxy_passed(const struct proxy *proxy);

#endif
