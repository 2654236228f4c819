/*
 * The socket between the supervisor and its worker: complete packets, some with descriptors.
 * Private to supervisor.c and supervised.c.
 */
#ifndef CORE_CHANNEL_H
#define CORE_CHANNEL_H

#include <stddef.h>

#include "core/lib/history.h"

/* The environment variable with the descriptor number of the worker's end. */
#define CHANNEL_VARIABLE "BUSBAR_SUPERVISED"

enum packet_kind {
    PACKET_NOTIFY = 1, /* text: a message for the service manager */
    PACKET_KEEP,       /* text: a key; with the descriptors to keep under it */
    PACKET_CRASH,      /* note */
    PACKET_FORGIVE,    /* quarantine has ended */
    PACKET_LOG,        /* text: "json" or "logfmt" */
    PACKET_START       /* to the worker, the last packet before it starts: history */
};

enum { CHANNEL_TEXT = 512, CHANNEL_FILES = 8 };

struct packet {
    enum packet_kind kind;
    char text[CHANNEL_TEXT];
    struct crash_note note;
};

/* Larger than the others, with the same beginning. */
struct start_packet {
    enum packet_kind kind;
    struct crash_history history;
};

/* Returns 0, or -1 on failure, or if it would block. Async-signal-safe. */
int channel_send(int channel, const void *packet, size_t size, const int *fds, size_t count);

/*
 * Returns the number of bytes, 0 at the end, -1 with errno. *count: number of descriptors received.
 */
long channel_receive(int channel, void *packet, size_t size, int fds[CHANNEL_FILES], size_t *count,
                     int flags);

#endif
