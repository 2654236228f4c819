/*
 * Answers: the success bodies and the one shape of every error body,
 * {"statusCode":409,"message":"…","error":"Conflict","requestId":"…"}. An answer is kept in the
 * request and sent when its fiber has ended. All functions are for the request's own thread.
 */
#ifndef CORE_REPLY_H
#define CORE_REPLY_H

#include "core/request/request.h"

/* The mark on an error of the OAuth 2.0 token endpoint, set by its module or the host; never sent.
 */
#define OAUTH_ERROR_HEADER "X-OAuth-Error"

/* A text as far as it is UTF-8: a bound may have cut its last character in two. NULL: no memory. */
json_t *reply_text(const char *text);

/* The standard's name of a status; "Error" for one that has none here. */
const char *reply_reason(int status);

/* See request.h of the public headers; they return the status. */
int reply_json(struct core_request *rq, int status, json_t *json);
/* The same on a fiber, and parks it while a thread of the host's pool writes a large answer: 60 MB
 * take half a second, in which the loop would serve nobody else. */
int reply_json_aside(struct core_request *rq, int status, json_t *json);
/*
 * `json` (taken) with what bb_warn() said in its `warnings`, where it is the object of a success.
 * Fiber only.
 */
json_t *reply_with_warnings(struct core_request *rq, int status, json_t *json);
BB_PRINTF(3, 4) int reply_error(struct core_request *rq, int status, const char *format, ...);
BB_PRINTF(3, 0)
int reply_verror(struct core_request *rq, int status, const char *format, va_list args);
int reply_failed(struct core_request *rq);
/* Whether trying a failed statement again helps, or an operator must: the client waits. */
bool failure_is_passing(const struct failure *failure);

/* An error with a list of {"field","problem"}; `message` as in reply_error(). */
int reply_problems(struct core_request *rq, int status, const char *message, json_t *errors);

/* An answer in bytes that have been written before; `bytes` is taken. */
int reply_bytes(struct core_request *rq, int status, char *bytes, size_t length);

/* An answer that is a file's content; `fd` is taken. */
int reply_file(struct core_request *rq, int fd, int64_t length);

/* Frees the body of an answer that will not be sent. */
void reply_drop(struct core_request *rq);

/* 0, or -1 where the name or the value does not fit in a header. Both are copied. */
int reply_header(struct core_request *rq, const char *name, const char *value);

/* NULL: the answer has no such header. */
const char *reply_header_get(const struct core_request *rq, const char *name);

/* reply_warnings.c: bb_warn() */
BB_PRINTF(2, 0) void api_vwarn(struct bb_request *rq, const char *format, va_list args);

#endif
