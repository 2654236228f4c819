/*
 * The store of documents, with a table of functions as its interface: a directory
 * (store_directory.c) or an S3 bucket (store_s3.c), for several hosts without a shared file system.
 * Incoming files are always written to the directory `incoming/` first and are moved to the store
 * from there.
 *
 * An object's name is the SHA-256 of its content followed by the upload's uuid: "<sha256>-<uuid>".
 * If a document already names the same content, the existing name is used again. So a name that no
 * document has named yet belongs to a single upload, and deleting it cannot affect another upload.
 *
 * These rules ensure that a document always has its content, and that a content without a document
 * does not stay for long:
 * - device_upload has a row for each new name, committed before the object is stored.
 * - The transaction that adds the documents deletes that row, and is refused if the row is gone.
 * - Before an object is deleted, its name must be in no document and no upload. A request that was
 *   refused deletes its own upload row, and deletes the object only if that row was still there.
 *   The sweep first ends uploads that take too long, then lists the store and checks the names
 *   against documents and uploads in one statement. After that no document can name the object any
 *   more.
 *
 * Only the database's clock matters for these rules, and no lock is held while the store works.
 *
 * The functions block; they run in the store's pool. Paths and names belong to the caller; a
 * function touches only its argument and the store. `why` has the reason of a failure ("" without a
 * failure), and never a secret.
 */
#ifndef DEVICE_STORE_H
#define DEVICE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

enum {
    STORE_SHA256 = 64, /* hexadecimal digits */
    STORE_NAME = 102,  /* with '-', a uuid and a NUL */
    STORE_AFTER = 1025,
    STORE_TYPE = 128,
    STORE_BATCH = 500,
    STORE_WHY = 200
};

struct store;
struct device_settings;

/* Stores incoming files under names. A file is moved from its path or stays there. */
struct store_keep {
    struct store *store;
    size_t count;
    const char *const *paths;
    const char *const *names;
    size_t begun;     /* how many may be in the store now */
    int64_t until_ms; /* monotonic deadline, set by store_keep(); 0: none */
    char why[STORE_WHY];
};

/* Opens an object as a complete local file, so that the sender need not wait for a disk. */
struct store_open {
    struct store *store;
    const char *name;
    int64_t length; /* expected length */
    int fd;         /* owned by the caller; -1: see `why` */
    char why[STORE_WHY];
};

/* Lists the next names after `after` that are older than `before`, sorted. */
struct store_list {
    struct store *store;
    time_t before;
    char after[STORE_AFTER]; /* "" to begin with; then where to continue */
    bool more;
    size_t count;
    char names[STORE_BATCH][STORE_NAME];
    char why[STORE_WHY];
};

/* Deletes objects; a missing object counts as deleted. Stops at the first failure. */
struct store_remove {
    struct store *store;
    size_t count;
    const char *const *names;
    int64_t until_ms; /* deadline of the store_keep that they belong to; 0: none, use a separate
                         time limit */
    size_t removed;
    char why[STORE_WHY];
};

struct store_calls {
    void (*keep)(struct store_keep *keep);
    void (*open)(struct store_open *open);
    void (*list)(struct store_list *list);
    void (*remove)(struct store_remove *remove);
    void (*free)(struct store *store);
};

/* The common first member of every store. */
struct store {
    const struct store_calls *calls;
    const char *directory; /* borrowed; it has `incoming/` */
    const char *pool;      /* name of the module's pool that runs the calls */
};

/* Returns NULL if out of memory. `directory` is borrowed. */
struct store *store_directory_new(const char *directory);

/* Returns NULL with the reason in `why`. The settings are borrowed; it does not connect yet. */
struct store *store_s3_new(const struct device_settings *settings, char why[STORE_WHY]);

/* Functions for the pool; the arguments are the structs above. */
void store_keep(void *keep);
void store_open(void *open);
void store_list(void *list);
void store_remove(void *remove);

void store_free(struct store *store);

/* Returns whether this is an object's name. Names of earlier versions are the SHA-256 alone. */
bool store_is_name(const char *text);

#endif
