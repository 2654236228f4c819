/*
 * Creates responses: success bodies, and the common format of error bodies,
 * {"statusCode":409,"message":"…","error":"Conflict","requestId":"…"}. A response is stored in the
 * request and sent when its fiber has ended. All functions must be called on the request's thread.
 */
#ifndef CORE_REPLY_H
#define CORE_REPLY_H

#include "core/module/request.h"

/* Marks an error of the OAuth 2.0 token endpoint; set by its module or the host, never sent. */
#define OAUTH_ERROR_HEADER "X-OAuth-Error"

/* Creates a JSON string from the valid UTF-8 at the start of a text. NULL: out of memory. */
json_t *reply_text(const char *text);

/* Returns the standard reason phrase of a status; "Error" if it has none here. */
const char *reply_reason(int status);

/* Implement functions of <busbar/reply.h>, which documents them. They return the status. */
int reply_json(struct core_request *rq, int status, json_t *json);
/* The approximate memory of JSON whose text is large, in bytes; 0: its text is small. */
size_t reply_large_memory(json_t *json);
/*
 * Like reply_json(), but parks the fiber while a pool thread of the host writes the response,
 * because writing 60 MB takes half a second, during which the loop would serve nothing else.
 */
int reply_json_aside(struct core_request *rq, int status, json_t *json);
/* Adds the texts of bb_warn() to `json` (taken) if it is an object and a success. Fiber only. */
json_t *reply_with_warnings(struct core_request *rq, int status, json_t *json);
BB_PRINTF(3, 4) int reply_error(struct core_request *rq, int status, const char *format, ...);
BB_PRINTF(3, 0)
int reply_verror(struct core_request *rq, int status, const char *format, va_list args);
int reply_failed(struct core_request *rq);
/* Records a failure, and answers as bb_failed() does. */
int reply_failure(struct core_request *rq, enum failure_kind kind);
/* Returns whether a retry or an operator can help, so that the client should try again later. */
bool failure_is_passing(const struct failure *failure);

/* Answers with an error that has a list of {"field","problem"}; `message` as for reply_error(). */
int reply_problems(struct core_request *rq, int status, const char *message, json_t *errors);

/* Answers with bytes; takes `bytes`. */
int reply_bytes(struct core_request *rq, int status, char *bytes, size_t length);

/* Answers with the content of a file; takes `fd`. */
int reply_file(struct core_request *rq, int fd, int64_t length);

/* Frees the body of a response that will not be sent. */
void reply_drop(struct core_request *rq);

/*
 * Adds a header; copies name and value. Returns 0, or -1 if one of them is not valid in a header.
 */
int reply_header(struct core_request *rq, const char *name, const char *value);

/* Returns a header of the response; NULL if it is not set. */
const char *reply_header_get(const struct core_request *rq, const char *name);

BB_PRINTF(2, 0) API_FUNCTION(vwarn);

#endif
