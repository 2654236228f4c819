/*
 * Checks the type of a request's body, and reads, parses and validates the body, the segments of
 * the path, and the query.
 *
 * Because a client can send thousands of large bodies, all large bodies together are limited to
 * http.max_bodies bytes. An account, or without a token an address, may use a part of them
 * (http.bodies_per_account percent, or http.client_percent if this is 0).
 */
#ifndef CORE_BODY_H
#define CORE_BODY_H

#include "core/server/http_txn.h"

bool body_follows(const struct http_txn *txn);

/* Checks type and size of the body, if any. Returns 0, or answers and returns the status. */
int body_expect(struct http_txn *txn);

/*
 * Processes a piece of the body, or discards it if the request is refused. Returns the number of
 * bytes that libmicrohttpd must keep for the next call.
 */
size_t body_take(struct http_txn *txn, const char *data, size_t size);

/*
 * Checks segments, query and body against the route. Returns 0, or answers and returns the status.
 * Any thread, while the loop does not use the HTTP transaction.
 */
int body_check(struct http_txn *txn);

void body_drop(struct http_txn *txn);

/* Answers with 429 or 503, because a large body or response has no room. Returns the status. */
int body_refuse_room(struct core_request *rq, enum quota quota, enum quota_result why);

/* Waits until all files are on disk. Returns 0, or answers and returns the status. Fiber only. */
int upload_wait(struct upload *upload);

/* Returns a text, for Idempotency-Key, that is equal only for equal bodies; NULL: out of memory. */
const char *upload_identity(struct upload *upload, size_t *length);

/* Call when the HTTP transaction has ended. Frees transaction and upload when the pool is idle. */
void upload_end(struct upload *upload);

#endif
