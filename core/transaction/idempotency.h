/*
 * Idempotency-Key: a POST that creates, sent again with the same key and body within the configured
 * hours, gets the first answer again and creates nothing; with another body it gets 422. The answer
 * is written, sealed, in the transaction that creates, so there is never one without the other.
 * A key belongs to an account and a route. All on the request's fiber.
 */
#ifndef CORE_IDEMPOTENCY_H
#define CORE_IDEMPOTENCY_H

#include "core/postgres/sql.h"
#include "core/request/request.h"

struct idempotency;

/*
 * Takes the key of a request; `target` is its raw path with the query, `body` are its raw bytes.
 * Returns 0: go on and create; otherwise the status of the answer that it gave (the stored one, or
 * an error). Parks.
 */
int idempotency_begin(struct core_request *rq, const struct bb_route *route, const char *target,
                      const char *key, const char *body, size_t body_length);

/* Adds the storing of the answer to the transaction. 0 or -1. */
int idempotency_store(struct bb_tx *tx, int status, const char *bytes, size_t length);

/*
 * Answers with what is stored under the key, or with 422 if that was another request's. Returns the
 * status of that answer, 0: nothing is stored. Parks.
 */
int idempotency_look(struct core_request *rq);

/* Whether the transaction just failed because the same key was stored first by another request. */
bool idempotency_lost(const struct core_request *rq);

/* The same after idempotency_lost(): there is an answer always. */
int idempotency_replay(struct core_request *rq);

/* Deletes keys that are over their time; a job of the host. */
void idempotency_expire(struct core_request *rq);

#endif
