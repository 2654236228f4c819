/*
 * Sends the answer of an HTTP transaction, and logs the request.
 *
 * Answers that wait for the client to read them share a limit (http.max_answers), of which each
 * owner has a share. A request that had effects must not be refused any more. So only read-only
 * requests get a 429 or 503 instead of their answer; other requests are refused before they have
 * any effect, if the unread answers of the owner have used up its share.
 */
#ifndef CORE_RESPONSE_H
#define CORE_RESPONSE_H

#include "core/server/http_txn.h"

/* Before the handler runs. Returns 0 or 429. */
int response_check_budget(struct http_txn *txn);
/* Counts the answer, or replaces it. */
void response_take_budget(struct http_txn *txn);
/*
 * Counts the memory of JSON that waits for a pool thread that writes it, up to http.max_answers
 * and shares of it, apart from the answers. The caller releases the charge. Returns 0; or 429 or
 * 503 if a read-only request has no room.
 */
int response_take_json(struct http_txn *txn, size_t bytes, struct quota_charge *charge);

enum MHD_Result response_send(struct http_txn *txn);

/* Counts the request, and logs it and its times, as the settings of the log require. */
void response_log(const struct http_txn *txn, enum MHD_RequestTerminationCode why);

#endif
