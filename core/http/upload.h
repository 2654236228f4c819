/*
 * Uploads: the multipart body of an HTTP transaction. The loop parses what arrives and gathers the
 * data of files in one of two buffers, while a thread of the module's pool writes the other; when
 * both are full the connection is suspended until one has been written. So memory stays the same
 * however much comes, and the disk never holds up the loop. Buffers that are used count among the
 * large bodies in memory; where there is no room for a second one, an upload goes on with its
 * first.
 *
 * Files lie in `incoming/` of the route's directory under names of their own. They are on disk
 * (fsync) when the handler sees them, and what has not been renamed by the end of the request is
 * deleted. They go to the disk while they come; what is waited for at the end is one commit of the
 * file system for all of them, and not one for each.
 *
 * An upload is its HTTP transaction's. While the pool works on it the HTTP transaction cannot be
 * freed: upload_end() does so when that is over. All on the loop, but for what upload_write.c runs
 * in the pool, which touches the batch that was handed to it and the files in that, and nothing
 * else.
 */
#ifndef CORE_UPLOAD_H
#define CORE_UPLOAD_H

#include <openssl/evp.h>

#include "core/base/multipart.h"
#include "core/http/http_txn.h"
#include "core/request/pool.h"

enum {
    UPLOAD_CHUNK = 512 * 1024, /* handed to the pool from here on */
    UPLOAD_ROOM = 544 * 1024,  /* of a buffer: more than a chunk and a piece of a body */
    UPLOAD_UNCOUNTED = BODY_LARGE - (UPLOAD_ROOM - UPLOAD_CHUNK), /* of a buffer; and a piece */
    UPLOAD_SEGMENTS_MAX = 128,
    UPLOAD_DISK_STEP = 256 * 1024, /* that is counted at a time */
    UPLOAD_OPEN_MAX = 16,          /* files whose flush to disk may wait for that of others */
    UPLOAD_PARTS_MAX = 256,        /* empty ones, too */
    UPLOAD_HEADS = 1024 * 1024     /* of a body, beside files and fields */
};

/* A file, in the arena of the request. */
struct upload_file {
    struct bb_file pub; /* first */
    struct upload_file *next;
    char sha256[65];
    int fd;             /* -1: not open */
    bool begun;         /* its path may exist */
    EVP_MD_CTX *digest; /* while it is open */
    struct upload_file *next_written;
};

/* Data of one file in a batch. */
struct upload_segment {
    struct upload_file *file;
    size_t length;
    bool last; /* of the file */
};

struct upload_batch {
    char *bytes; /* UPLOAD_ROOM, made when first needed */
    size_t length;
    struct upload_segment segments[UPLOAD_SEGMENTS_MAX];
    size_t count;
    bool counted; /* among the large bodies in memory */
};

struct upload {
    struct pool_call call; /* first; one at a time */
    struct http_txn *txn;
    const char *directory;
    struct multipart parser;
    const struct bb_part *part; /* that is being read; NULL: it is passed over */
    const char *name;           /* of it, as it came, or as the route has it */
    const char *filename;       /* of it; NULL: none */
    struct upload_file *file;   /* of it; NULL: no data yet */
    struct upload_file *files, **files_end;
    size_t files_length;         /* bytes of all */
    struct quota_charge on_disk; /* of them, a little in advance; see quota.h */
    size_t parts;                /* seen so far */
    unsigned *counts;            /* by part of the route */
    struct upload_batch batches[2];
    struct upload_batch *filling, *writing; /* writing NULL: the pool is not at work */
    int error;                              /* errno of the pool; read while it is not at work */
    struct upload_file *written;            /* and not on disk yet, still open; likewise */
    unsigned written_count;
    bool last;     /* for the pool: nothing comes behind this batch */
    bool stalled;  /* the connection is suspended until the pool has written */
    bool finished; /* nothing more comes: what is gathered is to be written */
    bool idle;     /* all is written */
    bool ended;    /* the HTTP transaction is over */
};

/* Begins with the boundary. 0, or the status of an answer. */
int upload_begin(struct http_txn *txn, const char *boundary);

/* Takes a piece of the body. 0, or the status of an answer. */
int upload_take(struct upload *upload, const char *data, size_t size);

/* Whether the connection must be suspended now; upload.c resumes it. */
bool upload_stalls(struct upload *upload);

/* The body has come whole. 0, or the status of an answer. */
int upload_complete(struct upload *upload);

/* Waits until all is on disk; on the fiber. 0, or the status of an answer. */
int upload_wait(struct upload *upload);

/* What makes the body the same again, for Idempotency-Key; NULL without memory. */
const char *upload_identity(struct upload *upload, size_t *length);

/* The HTTP transaction is over: frees it with the upload, now or when the pool is done with it. */
void upload_end(struct upload *upload);

static inline struct core_request *upload_request(struct upload *upload)
{
    return &upload->txn->rq;
}

static inline const struct bb_route *upload_route(const struct upload *upload)
{
    return upload->txn->match.route;
}

/* upload_parts.c: what the parser calls; the argument is a struct upload. */
extern const struct multipart_calls upload_parts;

/* Whether all required parts came. 0; or -1, and an answer has been given. */
int upload_parts_check(struct upload *upload);

/* upload_write.c: run in the pool; the argument is a struct upload. */
void upload_write(void *arg);
void upload_discard(void *arg);

const struct bb_file *api_file(struct bb_request *rq, size_t index);

#endif
