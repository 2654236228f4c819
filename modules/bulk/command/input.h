/*
 * Input of `busbar bulk import`. The whole file is copied into an unnamed file, so that it cannot
 * change while it is checked and may be a pipe. Also reads the answer to a question. Both functions
 * block, so they run on a pool's thread; they return soon after the command is interrupted.
 */
#ifndef BULK_INPUT_H
#define BULK_INPUT_H

#include <busbar/busbar.h>

struct input {
    struct bb_host *host; /* set by the caller, like the next two */
    const char *from;     /* path, or "-" for standard input */
    size_t most;          /* limit in bytes */
    int fd;               /* the copy; -1: none. input_free() closes it */
    bool piped;           /* the input was not a named file */
    char path[32];        /* of the copy, valid while it is open */
    char why[300];        /* why it could not be read; empty: no error */
};

void input_read(void *input);
void input_free(void *input);

/* Reads a line of standard input and sets `yes` if it begins with y. */
struct input_answer {
    struct bb_host *host;
    bool yes;
};
void input_ask(void *answer);

#endif
