/*
 * Functions that answer a request with JSON, bytes, files or errors, and add warnings and headers.
 * Each function that answers returns the status, so that a handler can end with `return
 * bb_reply(…)`. The rules for memory and fibers in request.h apply here, too.
 */
#ifndef BUSBAR_REPLY_H
#define BUSBAR_REPLY_H

#include <busbar/request.h>

/*
 * Answers with JSON and returns the status: `return bb_reply(rq, 200, json)`. Takes ownership of
 * `json`, whose parts must not be used elsewhere. Pass NULL for 204 and 304, which have no body. If
 * `json` is NULL with another status because creating it failed, answers with 503 if memory ran out
 * in this request, and otherwise logs an error and answers with 500. Parks while a large response
 * is written.
 */
static inline int bb_reply(struct bb_request *rq, int status, json_t *json)
{
    return rq->api->reply(rq, status, json);
}

/* Like bb_reply(), with a body of the Content-Type `type`. Copies the bytes. */
static inline int bb_reply_bytes(struct bb_request *rq, int status, const char *type,
                                 const void *bytes, size_t length)
{
    return rq->api->reply_bytes(rq, status, type, bytes, length);
}

/*
 * Answers with 200 and `length` bytes of a file, which are read and sent piece by piece. Takes
 * ownership of `fd`. Set Content-Type with bb_reply_header().
 */
static inline int bb_reply_file(struct bb_request *rq, int fd, int64_t length)
{
    return rq->api->reply_file(rq, fd, length);
}

/*
 * Answers with the standard error body, and returns the status. The message of a 403 without text
 * is "Forbidden". The body of a 409 also contains "success": false.
 */
BB_PRINTF(3, 4)
static inline int bb_fail(struct bb_request *rq, int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int answered = rq->api->vfail(rq, status, format, args);
    va_end(args);
    return answered;
}

/* Like bb_fail(), but `text` is not a format, and may be NULL. */
static inline int bb_fail_text(struct bb_request *rq, int status, const char *text)
{
    return rq->api->fail_text(rq, status, text);
}

/* Answers with 400 and an error about a field: {"errors":[{"field":…,"problem":…}]}. */
BB_PRINTF(3, 4)
static inline int bb_invalid(struct bb_request *rq, const char *field, const char *problem, ...)
{
    va_list args;

    va_start(args, problem);
    int answered = rq->api->vinvalid(rq, field, problem, args);
    va_end(args);
    return answered;
}

/* Like bb_invalid(), but `problem` is not a format. */
static inline int bb_invalid_text(struct bb_request *rq, const char *field, const char *problem)
{
    return rq->api->invalid_text(rq, field, problem);
}

/*
 * Adds `code`, and `params` if the code has any, to a problem {"field","problem"} whose text is one
 * of the host's, such as "is required" (docs/reference.md lists them). Does nothing if the problem
 * has a code. The functions for error responses do this for all their problems. Call it for
 * problems in a successful response.
 */
static inline void bb_set_code(struct bb_request *rq, json_t *problem)
{
    rq->api->set_code(rq, problem);
}

/*
 * Answers an invalid request with 400 and the message that the host uses for its own checks. Takes
 * ownership of `errors`, a list of {"field","problem"}. A problem with the module's own text can
 * have the module's own `code`, and `params`, an object.
 */
static inline int bb_refuse(struct bb_request *rq, json_t *errors)
{
    return rq->api->refuse(rq, errors);
}

/*
 * Like bb_refuse() with another status and a message as for bb_fail(). Use it for requests that are
 * valid but not possible (409), and bb_refuse() for a 400.
 */
BB_PRINTF(4, 5)
static inline int bb_fail_listed(struct bb_request *rq, int status, json_t *errors,
                                 const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int answered = rq->api->vfail_listed(rq, status, errors, format, args);
    va_end(args);
    return answered;
}

/* Like bb_fail_listed(), but `text` is not a format. */
static inline int bb_fail_listed_text(struct bb_request *rq, int status, json_t *errors,
                                      const char *text)
{
    return rq->api->fail_listed_text(rq, status, errors, text);
}

/*
 * Answers for the call that just failed, such as a query, a commit or an offload: 503 with
 * Retry-After if a retry can help, 409 for a unique violation, otherwise 500.
 */
static inline int bb_failed(struct bb_request *rq)
{
    return rq->api->failed(rq);
}

/*
 * Ends a handler, a function of bb_transaction() or a command at any depth of calls, for example
 * with bb_end(rq, bb_failed(rq)). A handler or function ends as if it had returned `status`; a
 * command always fails. Does not return. Call it only while the functions that it ends hold no
 * JSON, other memory, lock or file without bb_defer(). Do not call it in hooks, services, jobs and
 * workers, whose callers must continue, and not in C++ or Rust.
 */
__attribute__((noreturn)) static inline void bb_end(struct bb_request *rq, int status)
{
    rq->api->end(rq, status);
    __builtin_unreachable();
}

/*
 * Adds a text to the array `warnings` of the response, and its field and code to `warningDetails`,
 * if the response is a success whose body is an object. Use it for ignored input, and for values so
 * unlikely that the client should check them. Begin the text with the field: "capacity: is in kW".
 */
BB_PRINTF(2, 3)
static inline void bb_warn(struct bb_request *rq, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rq->api->vwarn(rq, format, args);
    va_end(args);
}

/* Like bb_warn(), but `text` is not a format. */
static inline void bb_warn_text(struct bb_request *rq, const char *text)
{
    rq->api->warn_text(rq, text);
}

/*
 * Checks whether the caller may act in the organization `asked` (0: none named), and sets
 * *organization to `asked`. Admins may act in any organization, other accounts in their own and in
 * those for which they act. If the caller may not, answers with 403. For an account that acts for
 * exactly one organization, it instead ignores `asked` with a warning and sets *organization to 0.
 * Returns 0, or the status of the response.
 */
static inline int bb_organization(struct bb_request *rq, int64_t asked, int64_t *organization)
{
    const struct bb_principal *who = rq->principal;

    *organization = asked;
    if (!asked || who->role == BB_ROLE_ADMIN || asked == who->organization)
        return 0;
    for (size_t i = 0; i < who->organization_count; i++)
        if (who->organizations[i] == asked)
            return 0;
    if (who->organization_count != 1)
        return bb_fail(rq, 403, "You may not act in this organization");
    *organization = 0;
    bb_warn(rq, "organizationId: %lld is ignored: you act in organization %lld", (long long)asked,
            (long long)who->organizations[0]);
    return 0;
}

/*
 * Sets *organization to the organization in which a request acts: the requested one (see
 * bb_organization()), or else the caller's own. Answers with 400 if the request names none and the
 * caller is an Admin, or an ApiUser that acts for several organizations; answers with 403 if the
 * caller has no organization. The module must check that an organization named by an Admin exists.
 * Returns 0, or the status of the response.
 */
static inline int bb_home(struct bb_request *rq, int64_t asked, int64_t *organization)
{
    const struct bb_principal *who = rq->principal;
    int refused = bb_organization(rq, asked, organization);

    if (refused || *organization)
        return refused;
    if (who->role == BB_ROLE_ADMIN ||
        (who->role == BB_ROLE_API_USER && who->organization_count > 1))
        return bb_invalid(rq, "organizationId", "is required");
    *organization = who->organization_count == 1 ? who->organizations[0] : who->organization;
    return *organization ? 0 : bb_fail(rq, 403, "You act in no organization");
}

/* Adds a header to the response. Returns 0, or -1 if the name or value is not valid in a header. */
static inline int bb_reply_header(struct bb_request *rq, const char *name, const char *value)
{
    return rq->api->reply_header(rq, name, value);
}

/* Adds the header Link to the next page: the target of this request with after=cursor. */
static inline int bb_reply_next(struct bb_request *rq, const char *cursor)
{
    return rq->api->reply_next(rq, cursor);
}

/*
 * Returns JSON as text, as in responses: *length bytes (`length` may be NULL), followed by a NUL.
 */
static inline char *bb_json(struct bb_request *rq, const json_t *json, size_t *length)
{
    return rq->api->json(rq, json, length);
}

#endif
