/*
 * Sends the response of an HTTP transaction, and logs the request.
 *
 * Responses that clients have not read yet share a limit (http.max_answers), of which each owner
 * has a share. A request that had effects must not be refused any more. So only read-only requests
 * get a 429 or 503 instead of their response; other requests are refused before the handler runs,
 * if the unread responses of the owner have used up its share.
 */
#ifndef CORE_RESPONSE_H
#define CORE_RESPONSE_H

#include "core/server/http_txn.h"

/* Checks the share of the owner before the handler runs. Returns 0 or 429. */
int response_check_budget(struct http_txn *txn);
/* Counts the response, or replaces it by a 429 or 503. */
void response_take_budget(struct http_txn *txn);
/*
 * Counts the memory of JSON that waits for a pool thread to write it, with the same limits as
 * responses, but separately. The caller releases the charge. Returns 0; or 429 or 503 if a
 * read-only request has no room.
 */
int response_take_json(struct http_txn *txn, size_t bytes, struct quota_charge *charge);

enum MHD_Result response_send(struct http_txn *txn);

/* Counts the request, and logs it and its times according to the settings of the log. */
void response_log(const struct http_txn *txn, enum MHD_RequestTerminationCode why);

#endif
