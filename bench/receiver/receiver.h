/* Interfaces of wire.c, which reads requests, stats.c, which counts them, and tls.c. See main.c. */
#ifndef BENCH_RECEIVER_H
#define BENCH_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WIRE_PATH 256

enum wire_state { WIRE_MORE, WIRE_REQUEST, WIRE_ENDED };

struct ssl_st;

/* The received bytes of a connection and the request in them. */
struct wire {
    struct ssl_st *tls; /* NULL: no TLS */
    char *bytes;
    size_t length, room;
    size_t head;        /* bytes of the head, 0: not yet complete */
    size_t body_length; /* by Content-Length */
    char method[16];
    char path[WIRE_PATH];
    char id[64]; /* webhook-id */
};

enum wire_state wire_read(struct wire *wire, int fd);
void wire_next(struct wire *wire); /* removes the request that was read */
void wire_free(struct wire *wire);

/* tls_set_up() and tls_accept() end the program on errors. The file has the authority's key and
 * certificate. */
void tls_set_up(const char *authority_file);
struct ssl_st *tls_accept(int fd);
void tls_free(struct ssl_st *tls);
/* Like recv() and send() on a non-blocking socket. */
ssize_t tls_recv(struct ssl_st *tls, void *bytes, size_t length);
ssize_t tls_send(struct ssl_st *tls, const void *bytes, size_t length);

void stats_opened(void);         /* a connection sent its first POST */
void stats_closed(void);         /* a connection that sent a POST ended */
void stats_shaken(bool resumed); /* a TLS handshake has finished */
void stats_note(const struct wire *wire);
void stats_forget(void);

/* Each returns a string that the caller frees. stats_count() counts requests to paths that begin
 * with `prefix`. */
char *stats_text(void);
char *stats_ids(const char *path);
char *stats_count(const char *prefix);

int64_t receiver_now_ms(void); /* monotonic */

#endif
