/*
 * Idempotency-Key: if a POST that creates something is repeated with the same key and body within
 * the configured hours, it gets the first answer again and creates nothing; with another body it
 * gets 422. The encrypted answer is written in the transaction that creates, so both are stored or
 * neither is. A key belongs to an account and a route. All functions run on the request's fiber.
 */
#ifndef CORE_IDEMPOTENCY_H
#define CORE_IDEMPOTENCY_H

#include "core/module/request.h"
#include "core/store/sql.h"

struct idempotency;

/*
 * Takes the key of a request; `target` is its raw path with the query, `body` its raw bytes.
 * Returns 0: the request must be processed; otherwise the status of the answer that it gave (the
 * stored one, or an error). Parks.
 */
int idempotency_begin(struct core_request *rq, const struct bb_route *route, const char *target,
                      const char *key, const char *body, size_t body_length);

/* Adds a statement that stores the answer to the transaction. Returns 0 or -1. */
int idempotency_store(struct bb_tx *tx, int status, const char *bytes, size_t length);

/*
 * Answers with the answer stored for the key, or with 422 if it belongs to another request. Returns
 * the status of that answer; 0: nothing is stored. Parks.
 */
int idempotency_look(struct core_request *rq);

/* Whether the transaction just failed because another request stored the same key first. */
bool idempotency_lost(const struct core_request *rq);

/* Like idempotency_look() after idempotency_lost(): always answers. */
int idempotency_replay(struct core_request *rq);

/* Deletes expired keys; a job of the host. */
void idempotency_expire(struct core_request *rq);

#endif
