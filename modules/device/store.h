/*
 * The store of documents is a table of functions. It uses a directory, or an S3 bucket if several
 * hosts have no shared file system. Incoming files are always written to the directory `incoming/`
 * first, and are moved to the store from there.
 *
 * An object's name is the SHA-256 of its content and the upload's uuid: "<sha256>-<uuid>". If a
 * document already has the same content, its object is used again. So a name that no document has
 * had yet belongs to a single upload, and deleting the object cannot affect another upload.
 *
 * These rules ensure that a document always has its content, and that a content without a document
 * is deleted soon:
 * - device_upload has a row for each new name, committed before the object is stored.
 * - The transaction that adds the documents deletes that row, and is refused if the row is gone. To
 *   use the object of another document again, it locks the row of that document until the commit.
 * - Before an object is deleted, its name must be in no document and no upload. A request that was
 *   refused deletes its own upload row, and deletes the object only if that row was still there.
 *   The sweep first deletes the rows of uploads that take too long. Then it lists the store, and
 *   looks for the names in documents and uploads in one statement. A name that is in neither table
 *   cannot become a document's name any more.
 *
 * Only the database's clock matters for these rules, and no lock is held while the store works.
 *
 * The functions block, and run in the store's pool. Paths and names belong to the caller; a
 * function touches only its argument and the store.
 */
#ifndef DEVICE_STORE_H
#define DEVICE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
    STORE_SHA256 = 64, /* hexadecimal digits */
    STORE_NAME = 102,  /* a SHA-256, '-', a uuid and a NUL */
    STORE_AFTER = 1025,
    STORE_BATCH = 500,
    STORE_WHY = 200,
    STORE_PATH = 4096 + 256, /* device.documents (up to 4096 bytes) and a name */
    STORE_MODE = 0700,       /* mode of new directories */
    STORE_S3_THREADS = 8     /* threads of the S3 pool; maximum idle connections */
};

struct device_settings;

/* The calls of a store. The metrics list their label values in the same order. */
enum store_call { STORE_KEEP, STORE_OPEN, STORE_LIST, STORE_REMOVE, STORE_CALLS };

/* The common first member of every store. */
struct store {
    void (*calls[STORE_CALLS])(void *job); /* the argument is the call's struct (below) */
    void (*free)(struct store *store);
    const char *directory; /* the parent of `incoming/`; borrowed */
    const char *pool;      /* name of the module's pool that runs the calls */
};

/* The common first member of every argument. */
struct store_job {
    struct store *store;
    char why[STORE_WHY]; /* the reason of a failure, without secrets; "": no failure */
};

/* Stores incoming files under names. The directory store moves them, the S3 store copies them. */
struct store_keep {
    struct store_job job;
    size_t count;
    const char *const *paths;
    const char *const *names;
    int64_t until_ms; /* set by the call: deadline for store_remove; 0: none */
};

/* Opens an object as a complete local file, so that sending it never waits for the store. */
struct store_open {
    struct store_job job;
    const char *name;
    int64_t length; /* expected length */
    int fd;         /* set by the call, owned by the caller; -1: see `why` */
};

/* Lists the objects older than `before` whose names follow `after`, in the order of names. */
struct store_list {
    struct store_job job;
    time_t before;
    char after[STORE_AFTER]; /* "" at first; each call sets it for the next call */
    bool contents;           /* also list contents of other modules, such as "<sha256>.chat" */
    bool more;
    size_t count; /* number of names; the caller sets it to 0 before each call */
    int64_t sizes[STORE_BATCH];
    char names[STORE_BATCH][STORE_NAME];
};

/* Deletes objects; a missing object counts as deleted. Stops at the first failure. */
struct store_remove {
    struct store_job job;
    size_t count;
    const char *const *names;
    /* deadline of the store_keep that stored the objects; 0: use a separate time limit */
    int64_t until_ms;
    size_t removed; /* number of deleted objects; the caller sets it to 0 */
};

/* Creates a file in `incoming/`. Returns its descriptor and its path, or -1. */
int store_incoming(const struct store *store, char path[STORE_PATH]);

/* Returns whether a name begins with the hexadecimal digits of this SHA-256. */
bool store_is_named(const char *name, const unsigned char *sha256);

/* Creates a store in a directory, whose path is borrowed. Returns NULL if out of memory. */
struct store *store_directory_new(const char *directory);

/* Creates a store in a bucket; borrows `settings`. Returns NULL with the reason in `why`. */
struct store *store_s3_new(const struct device_settings *settings, char why[STORE_WHY]);

#endif
