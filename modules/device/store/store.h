/*
 * The store of documents, behind a table of functions: a directory (store_directory.c), or a bucket
 * that speaks S3 (store_s3.c), for several hosts that share no file system. What arrives lies in
 * `incoming/` of a directory first, whatever the store; from there it is kept.
 *
 * An object's name is the SHA-256 of its content, behind which the upload that brought it stands:
 * "<sha256>-<uuid>". The same content is put under the name that it has already, if a document
 * names it. So a name that no document has named belongs to one upload alone, and who takes it away
 * cannot take it from another.
 *
 * Neither a document without its content, nor for long content without its document:
 * - device_upload has a row for each new name, committed before the object is put there.
 * - The transaction that adds the documents takes that row away, and is refused where it has gone.
 * - Whoever wants to delete an object makes sure first that neither a document nor an upload names
 *   it. A request that was refused takes its own upload's row away, and deletes the object only if
 *   that was still there; the sweep lists the store and then asks for both in one statement, after
 *   it has ended uploads that last too long. From then on no document can name it any more.
 * No clock but the database's has a say in this, and no lock is held while a store is at work.
 *
 * The functions block; they run in the pool of the store. Paths and names are the caller's; none
 * touches anything but its argument and the store. `why` says what went wrong, "" for nothing, and
 * never holds a secret.
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

/* Names files that have arrived. They are taken from their paths, or left there. */
struct store_keep {
    struct store *store;
    size_t count;
    const char *const *paths;
    const char *const *names;
    size_t begun;     /* how many may lie there now */
    int64_t until_ms; /* monotonic; when it must have ended; 0: no such time */
    char why[STORE_WHY];
};

/* Opens an object, whole and on this machine, so that who sends it need not wait for a disk. */
struct store_open {
    struct store *store;
    const char *name;
    int64_t length; /* that it must have */
    int fd;         /* the caller's; -1: see `why` */
    char why[STORE_WHY];
};

/* The next names behind `after` that are older than `before`, in their order. */
struct store_list {
    struct store *store;
    time_t before;
    char after[STORE_AFTER]; /* "" to begin with; then where to go on */
    bool more;
    size_t count;
    char names[STORE_BATCH][STORE_NAME];
    char why[STORE_WHY];
};

/* Deletes objects; one that is not there counts as deleted. Ends at the first failure. */
struct store_remove {
    struct store *store;
    size_t count;
    const char *const *names;
    int64_t until_ms; /* what a store_keep that they are of has; 0: it gets time of its own */
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

/* What every store begins with. */
struct store {
    const struct store_calls *calls;
    const char *directory; /* borrowed: of `incoming/` */
    const char *pool;      /* of the module: whose threads run the calls */
};

/* NULL without memory. `directory` is borrowed. */
struct store *store_directory_new(const char *directory);

/* NULL with the reason in `why`. The settings are borrowed; nothing is connected to yet. */
struct store *store_s3_new(const struct device_settings *settings, char why[STORE_WHY]);

/* For the pool: the arguments are the structs above. */
void store_keep(void *keep);
void store_open(void *open);
void store_list(void *list);
void store_remove(void *remove);

/* Deletes what uploads and downloads left in `incoming/` when their host died, older than `before`.
 */
struct store_tidy {
    const struct store *store;
    time_t before;
    size_t removed;
};
void store_tidy(void *tidy);

void store_free(struct store *store);

/* Whether this is a name as above; the SHA-256 alone is one of earlier versions. */
bool store_is_name(const char *text);

#endif
