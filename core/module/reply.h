/*
 * Creates responses: success bodies, and the common format of error bodies,
 * {"statusCode":409,"message":"…","error":"Conflict","requestId":"…"}. A response is stored in the
 * request, and is sent after the fiber's end. All functions must be called on the request's thread.
 */
#ifndef CORE_REPLY_H
#define CORE_REPLY_H

#include "core/lib/log.h"
#include "core/module/request.h"

/* Modules set this header to an OAuth 2.0 error code; reply_problems() moves it to the body. */
#define OAUTH_ERROR_HEADER "X-OAuth-Error"

/* Creates a JSON string from the valid UTF-8 at the start of a text. NULL: out of memory. */
json_t *reply_text(const char *text);

/* Returns the standard reason phrase of an error status; "Error" if the table lacks it. */
const char *reply_reason(int status);

/*
 * Answers with `json` (NULL: no body), releases it, and returns the status. If `aside` is set, a
 * pool thread of the host serializes the JSON while the fiber is parked, because serializing 60 MB
 * would block the loop for half a second.
 */
int reply_json(struct core_request *rq, int status, json_t *json, bool aside);
/* Returns the approximate bytes of memory that the JSON uses; 0 if its text is at most 64 KiB. */
size_t reply_large_memory(json_t *json);
/* Adds an ETag to a 200 if the route has BB_VERSIONED. Returns 0, or -1 if memory ran out. */
int reply_set_tag(struct core_request *rq, int status, json_t *object);
#define REPLY_CHANGED "The object has changed or no longer exists. Read it again."
/* Returns `json`; for a successful request with texts of bb_warn(), a copy that includes them. */
json_t *reply_with_warnings(struct core_request *rq, int status, json_t *json);
/* Implement functions that <busbar/reply.h> documents. Return the status. */
BB_PRINTF(3, 4) int reply_error(struct core_request *rq, int status, const char *format, ...);
BB_PRINTF(3, 0)
int reply_verror(struct core_request *rq, int status, const char *format, va_list args);
int reply_failed(struct core_request *rq);
/* Records a failure, answers with the error for it, and returns the status. */
int reply_failure(struct core_request *rq, enum failure_kind kind);
/* Returns whether a retry or an operator can help, so that the client should try again later. */
bool failure_is_passing(const struct failure *failure);

/* Like reply_error(), with `errors`, which it releases: a list of {"field","problem"}, or NULL. */
int reply_problems(struct core_request *rq, int status, const char *message, json_t *errors);

/* Answers with `bytes`, from malloc(), which it frees later; NULL: no body. Returns the status. */
int reply_bytes(struct core_request *rq, int status, char *bytes, size_t length);

/* Frees the body of a response that will not be sent. */
void reply_drop(struct core_request *rq);

/* Adds a header; copies name and value. Returns 0, or -1 if one is invalid or memory ran out. */
int reply_header(struct core_request *rq, const char *name, const char *value);

/* Returns a header of the response; NULL if it is not set. */
const char *reply_header_get(const struct core_request *rq, const char *name);

/*
 * Handles errors of modules that the host can tolerate: logs each with the module and its route,
 * job, hook or command, and answers an HTTP request with 500.
 */

enum { MODULE_ERROR_PLACE = 256 };

/* Returns a pair for the log: the request's route (written to `route`), job, hook or command. */
struct log_pair module_error_place(const struct core_request *rq, char route[MODULE_ERROR_PLACE]);

/* Logs an error without answering; `detail` is a name or number that is logged with it, or NULL. */
void module_error_log(const struct core_request *rq, enum bb_level level, const char *what,
                      const char *detail);

/* Logs the error, answers with 500, and makes bb_failed() keep this response. Returns 500. */
int module_error(struct core_request *rq, const char *what, const char *detail);

/*
 * Call in a function that waits; `what` is its name. If waiting is not allowed, answers and returns
 * true: in a hook within a transaction, whose event is then vetoed, and in a handler that runs only
 * to find further problems.
 */
bool module_error_waits(struct core_request *rq, const char *what);

/* Answers if a module passed NULL as JSON: 503 if memory ran out, otherwise 500 (logged). */
int module_error_no_json(struct core_request *rq, int status);

/* Call before setting a response. Logs if it replaces a success, or is an error after a commit. */
void module_error_log_response(const struct core_request *rq, int status);

/* Returns whether a response with this status has a body. */
bool module_error_wants_body(int status);

/*
 * Returns whether a response may have this status: `least` to 599, but below 400 after a commit,
 * and above 399 if problems were found before. If not, sets *instead to the status to return.
 */
bool module_error_free_response(struct core_request *rq, int status, int least, int *instead);

/* Called after the handler: answers with 500 if a response is missing or a unit is open. */
void module_error_check_answer(struct core_request *rq, int returned);

/* Logs the failure of the request's statement, once. */
void module_error_statement(struct core_request *rq, enum bb_level level);

#endif
