/*
 * Idempotency-Key: a POST that creates something and is repeated with the same key and body within
 * the configured hours gets the first response again and creates nothing; with another body it gets
 * 422. The transaction that creates the object also stores the encrypted response, so both are
 * stored or neither is. A key belongs to an account and a route. All functions run on the request's
 * fiber.
 */
#ifndef CORE_IDEMPOTENCY_H
#define CORE_IDEMPOTENCY_H

#include "core/module/request.h"
#include "core/store/sql.h"

struct idempotency;

/*
 * Checks the key of a request; `target` is its raw path with the query, `body` its raw body.
 * Returns 0 if the request must be processed. Otherwise answers with the stored response or an
 * error, and returns the status. Parks.
 */
int idempotency_begin(struct core_request *rq, const struct bb_route *route, const char *target,
                      const char *key, const char *body, size_t body_length);

/* Adds a statement to the transaction that stores the response. Returns 0 or -1. */
int idempotency_store(struct bb_tx *tx, int status, const char *bytes, size_t length);

/*
 * Answers with the response stored for the key, or with 422 if it belongs to another request, and
 * returns the status. Returns 0 if nothing is stored. Parks.
 */
int idempotency_look(struct core_request *rq);

/* Returns whether the transaction failed because another request stored the same key first. */
bool idempotency_lost(const struct core_request *rq);

/* Like idempotency_look(), for use after idempotency_lost(): always answers. */
int idempotency_replay(struct core_request *rq);

/* Deletes expired keys; a job of the host. */
void idempotency_expire(struct core_request *rq);

#endif
