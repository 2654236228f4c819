/* The receiver's parts: wire.c reads requests, stats.c keeps the books, tls.c speaks TLS. See
 * main.c. */
#ifndef BENCH_RECEIVER_H
#define BENCH_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WIRE_PATH 256

enum wire_state { WIRE_MORE, WIRE_REQUEST, WIRE_ENDED };

/* A connection's bytes and the request in them. */
struct ssl_st;

struct wire {
    struct ssl_st *tls; /* NULL: none */
    char *bytes;
    size_t length, room;
    size_t head;        /* bytes of the head, 0: not yet complete */
    size_t body_length; /* by Content-Length */
    char method[16];
    char path[WIRE_PATH];
    char id[64]; /* webhook-id */
};

enum wire_state wire_read(struct wire *wire, int fd);
void wire_next(struct wire *wire); /* forgets the request that was read */
void wire_free(struct wire *wire);

/* `authority_file`: its key and its certificate. These end the program if they fail. */
void tls_set_up(const char *authority_file);
struct ssl_st *tls_accept(int fd);
void tls_free(struct ssl_st *tls);
/* As recv() and send() on a socket that does not block. */
ssize_t tls_recv(struct ssl_st *tls, void *bytes, size_t length);
ssize_t tls_send(struct ssl_st *tls, const void *bytes, size_t length);

void stats_opened(void);         /* a connection brought its first POST */
void stats_closed(void);         /* it ended */
void stats_shaken(bool resumed); /* a handshake of TLS is over */
void stats_note(const struct wire *wire);
void stats_forget(void);
char *stats_text(void);                /* given */
char *stats_ids(const char *path);     /* given */
char *stats_count(const char *prefix); /* given; of the paths that begin with it */

int64_t receiver_now_ms(void); /* monotonic */

#endif
