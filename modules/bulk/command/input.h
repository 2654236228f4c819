/*
 * What `busbar bulk import` reads: the file, whole, into one without a name, so that it stays the
 * same while it is checked and may be a pipe; and the answer to a question. Both block, for a
 * thread of a pool, and end soon once the command is interrupted.
 */
#ifndef BULK_INPUT_H
#define BULK_INPUT_H

#include <busbar/busbar.h>

struct input {
    struct bb_host *host; /* set by the caller, as the next two */
    const char *from;     /* path, or "-" for standard input */
    size_t most;          /* bytes */
    int fd;               /* the copy; -1: none. input_free() closes it */
    bool piped;           /* it came from no file with a name */
    char path[32];        /* of the copy, as long as it is open */
    char why[300];        /* not empty: it could not be read */
};

void input_read(void *input);
void input_free(void *input);

/* A line of standard input: whether it begins with y. */
struct input_answer {
    struct bb_host *host;
    bool yes;
};
void input_ask(void *answer);

#endif
