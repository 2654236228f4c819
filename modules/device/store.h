/*
 * The store of documents: a directory in which content lies under its SHA-256, so the same content
 * lies there once. `incoming/` in it is where the host puts what arrives.
 *
 * A file gets its name only when it is on disk, and before its row: after a crash there may be
 * files without a row, which the sweep takes away once they are older than a while, but never a row
 * without its file. The sweep moves a file aside before it deletes it, and looks at its age again:
 * what the same content of another request has replaced meanwhile is put back.
 *
 * All functions block; they run in the pool `documents`. Paths and names are the caller's. None
 * touches anything but its argument.
 */
#ifndef DEVICE_STORE_H
#define DEVICE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum { STORE_NAME = 65, STORE_TYPE = 128, STORE_SHARDS = 256, STORE_BATCH = 500 };

/* Names files that have arrived by their content. */
struct store_keep {
    const char *directory;
    size_t count;
    const char *const *paths; /* where they lie */
    const char *const *names; /* SHA-256 in hexadecimal */
    int error;                /* errno; 0: all are kept */
};
void store_keep(void *keep);

/* Opens a file, and reads it ahead, so that who sends it need not wait for the disk. */
struct store_open {
    const char *directory, *name;
    int fd; /* -1: errno in `error` */
    int64_t length;
    int error;
};
void store_open(void *open);

/* Names of files in a shard (the first byte of the name) that are older than `before`. */
struct store_list {
    const char *directory;
    unsigned shard;
    time_t before;
    size_t count;
    char names[STORE_BATCH][STORE_NAME];
};
void store_list(void *list);

/* Deletes what was listed, but for those whose `keep` is set, or that are young again. */
struct store_remove {
    const struct store_list *list;
    bool keep[STORE_BATCH];
    size_t removed;
};
void store_remove(void *remove);

/* Deletes what uploads left in `incoming/` when their host died, older than `before`. */
struct store_tidy {
    const char *directory;
    time_t before;
    size_t removed;
};
void store_tidy(void *tidy);

#endif
