/*
 * The socket between the supervisor and its worker: whole packets, with descriptors beside some.
 * Private to recovery/.
 */
#ifndef CORE_CHANNEL_H
#define CORE_CHANNEL_H

#include <stddef.h>

#include "core/recovery/history.h"

/* The environment's name of the worker's end, a number. */
#define CHANNEL_VARIABLE "BUSBAR_SUPERVISED"

enum packet_kind {
    PACKET_NOTIFY = 1, /* text: for the service manager */
    PACKET_KEEP,       /* text: a key; with the descriptors that it stands for */
    PACKET_CRASH,      /* note */
    PACKET_FORGIVE,    /* quarantine is over */
    PACKET_LOG,        /* text: "json" or "logfmt" */
    PACKET_START       /* to the worker, the last one before it starts: history */
};

enum { CHANNEL_TEXT = 512, CHANNEL_FILES = 8 };

struct packet {
    enum packet_kind kind;
    char text[CHANNEL_TEXT];
    struct crash_note note;
};

/* Larger than the others; begins like one. */
struct start_packet {
    enum packet_kind kind;
    struct crash_history history;
};

/* 0, or -1: also where it would wait. Async-signal-safe. */
int channel_send(int channel, const void *packet, size_t size, const int *fds, size_t count);

/* Bytes, 0 at the end, -1 with errno. *count: how many descriptors came. */
long channel_receive(int channel, void *packet, size_t size, int fds[CHANNEL_FILES], size_t *count,
                     int flags);

#endif
