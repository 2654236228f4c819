/*
 * Uploads: the multipart body of an HTTP transaction. The loop parses arriving data and collects
 * file data in one of two buffers, while a thread of the module's pool writes the other buffer; if
 * both are full, the connection is suspended until the pool has written a buffer. So memory use is
 * independent of the size of the upload, and the disk never blocks the loop. The buffers count
 * among the large bodies in memory; if there is no room for a second buffer, the upload continues
 * with the first.
 *
 * Files are stored in `incoming/` of the route's directory under unique names. They are synced to
 * disk (fsync) before the handler sees them, and deleted at the end of the request if they still
 * have their names. Data is written to disk as it arrives, so that at the end a single commit of
 * the file system is left for all files.
 *
 * An upload belongs to its HTTP transaction. While the pool works on it the HTTP transaction cannot
 * be freed: upload_end() frees it after that. Everything runs on the loop except upload_write.c,
 * which runs in the pool and uses only the batch that was passed to it and the files of the batch.
 */
#ifndef CORE_UPLOAD_H
#define CORE_UPLOAD_H

#include <openssl/evp.h>

#include "core/lib/multipart.h"
#include "core/module/pool.h"
#include "core/server/http_txn.h"

enum {
    UPLOAD_CHUNK = 512 * 1024, /* a batch of this size goes to the pool */
    UPLOAD_ROOM = 544 * 1024,  /* size of a buffer: a chunk and a piece of a body */
    UPLOAD_UNCOUNTED = BODY_LARGE - (UPLOAD_ROOM - UPLOAD_CHUNK), /* buffer bytes that are not
                                                                   * counted; leaves room for a
                                                                   * piece */
    UPLOAD_SEGMENTS_MAX = 128,
    UPLOAD_DISK_STEP = 256 * 1024, /* disk space is counted in steps of this size */
    UPLOAD_OPEN_MAX = 16,          /* maximum number of files that wait for a common flush to
                                    * disk */
    UPLOAD_PARTS_MAX = 256,        /* including empty parts */
    UPLOAD_HEADS = 1024 * 1024     /* per body, in addition to files and fields */
};

/* A file, allocated in the arena of the request. */
struct upload_file {
    struct bb_file pub; /* first */
    struct upload_file *next;
    char sha256[65];
    int fd;             /* -1: not open */
    bool begun;         /* a file with its path may exist */
    EVP_MD_CTX *digest; /* while the file is open */
    struct upload_file *next_written;
};

/* Data of one file in a batch. */
struct upload_segment {
    struct upload_file *file;
    size_t length;
    bool last; /* the end of the file */
};

struct upload_batch {
    char *bytes; /* UPLOAD_ROOM bytes, allocated on first use */
    size_t length;
    struct upload_segment segments[UPLOAD_SEGMENTS_MAX];
    size_t count;
    bool counted; /* among the large bodies in memory */
};

struct upload {
    struct pool_call call; /* first member; one call at a time */
    struct http_txn *txn;
    const char *directory;
    struct multipart parser;
    const struct bb_part *part; /* the current part; NULL: it is ignored */
    const char *name;           /* its name, as sent or as declared by the route */
    const char *filename;       /* its file name; NULL: none */
    struct upload_file *file;   /* its file; NULL: no data yet */
    struct upload_file *files, **files_end;
    size_t files_length;         /* bytes of all files */
    struct quota_charge on_disk; /* disk space, counted in advance in steps; see quota.h */
    size_t parts;                /* seen so far */
    unsigned *counts;            /* for each part of the route */
    struct upload_batch batches[2];
    struct upload_batch *filling, *writing; /* writing NULL: the pool is idle */
    int error;                              /* errno of the pool; read only while the pool is
                                             * idle */
    struct upload_file *written;            /* open files not yet synced to disk; read like error */
    unsigned written_count;
    bool last;     /* for the pool: this is the last batch */
    bool stalled;  /* the connection is suspended until the pool has written */
    bool finished; /* no more data follows: write what was collected */
    bool idle;     /* all data was written */
    bool ended;    /* the HTTP transaction is over */
};

/* Starts an upload with this boundary. Returns 0, or the status of an answer. */
int upload_begin(struct http_txn *txn, const char *boundary);

/* Processes a piece of the body. Returns 0, or the status of an answer. */
int upload_take(struct upload *upload, const char *data, size_t size);

/* Whether the connection must be suspended now; upload.c resumes it. */
bool upload_stalls(struct upload *upload);

/* The body is complete. Returns 0, or the status of an answer. */
int upload_complete(struct upload *upload);

/* Waits until all files are on disk; on the fiber. Returns 0, or the status of an answer. */
int upload_wait(struct upload *upload);

/* Returns a text that is equal for equal bodies, for Idempotency-Key; NULL if memory ran out. */
const char *upload_identity(struct upload *upload, size_t *length);

/* The HTTP transaction is over: frees it and the upload, now or when the pool has finished. */
void upload_end(struct upload *upload);

static inline struct core_request *upload_request(struct upload *upload)
{
    return &upload->txn->rq;
}

static inline const struct bb_route *upload_route(const struct upload *upload)
{
    return upload->txn->match.route;
}

/* upload_parts.c: callbacks for the parser; the argument is a struct upload. */
extern const struct multipart_calls upload_parts;

/* Whether all required parts were sent. Returns 0, or -1 if it has answered. */
int upload_parts_check(struct upload *upload);

/* upload_write.c: run in the pool; the argument is a struct upload. */
void upload_write(void *arg);
void upload_discard(void *arg);

const struct bb_file *api_file(struct bb_request *rq, size_t index);

#endif
