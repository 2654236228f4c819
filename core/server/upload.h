/*
 * Uploads: the multipart body of an HTTP transaction. The loop parses arriving data and collects
 * file data in one of two buffers, while a thread of the module's pool writes the other; if both
 * are full, the connection is suspended. So memory is independent of the size of the upload, and
 * the disk never blocks the loop. The buffers count among the large bodies in memory; if there is
 * no room for a second one, the upload continues with one. Files are stored in `incoming/` of the
 * route's directory, and synced to disk (fsync) before the handler gets them; files that still have
 * their names at the end of the request are deleted. Everything runs on the loop, except
 * upload_write_batch() and upload_discard(), which run in the pool and use only the files and the
 * batch that was passed to them. While the pool works, the HTTP transaction cannot be freed: see
 * upload_end().
 */
#ifndef CORE_UPLOAD_H
#define CORE_UPLOAD_H

#include "core/lib/multipart.h"
#include "core/server/http_txn.h"

enum { UPLOAD_HEADS = 1024 * 1024 }; /* bytes per body, in addition to files and fields */

/* Starts an upload with this boundary. Returns 0, or the status of a response. */
int upload_begin(struct http_txn *txn, const char *boundary);

/* Processes a piece of the body. Returns 0, or the status of a response. */
int upload_take(struct upload *upload, const char *data, size_t size);

/*
 * upload_stalls() returns whether the connection must be suspended now, because both buffers are
 * full. upload_is_stalled() returns whether it is suspended; the upload will resume it.
 */
bool upload_stalls(struct upload *upload);
bool upload_is_stalled(const struct upload *upload);

/* Ends the upload, because the body is complete. Returns 0, or the status of a response. */
int upload_complete(struct upload *upload);

/* Waits until all files are on disk; on the fiber. Returns 0, or the status of a response. */
int upload_wait(struct upload *upload);

/* Returns a text for Idempotency-Key that is equal for equal bodies; NULL if memory ran out. */
const char *upload_identity(struct upload *upload, size_t *length);

/* Frees the upload and its HTTP transaction, which has ended, now or when the pool has finished. */
void upload_end(struct upload *upload);

#endif
