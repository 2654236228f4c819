/*
 * Functions that answer a request with JSON, bytes, files or errors, and add warnings and headers.
 * Each function that answers returns the status, so that a handler can end with `return
 * bb_reply(…)`. The rules for memory and fibers in request.h apply here, too.
 */
#ifndef BUSBAR_REPLY_H
#define BUSBAR_REPLY_H

#include <busbar/request.h>

/*
 * Answers with JSON. Takes `json`, whose parts must not be used elsewhere. Pass NULL for 204 and
 * 304, which have no body. Otherwise NULL means that creating the JSON failed: the answer is 503 if
 * memory ran out in this request, and 500 with a log line if json_pack() failed for another reason.
 * Returns the status: `return bb_reply(rq, 200, json)`. Parks while a large answer is written.
 */
static inline int bb_reply(struct bb_request *rq, int status, json_t *json)
{
    return rq->api->reply(rq, status, json);
}

/* Like bb_reply() with bytes of another Content-Type, which are copied. */
static inline int bb_reply_bytes(struct bb_request *rq, int status, const char *type,
                                 const void *bytes, size_t length)
{
    return rq->api->reply_bytes(rq, status, type, bytes, length);
}

/*
 * Answers 200 with `length` bytes of a file, which are sent unchanged as they are read. Takes `fd`.
 * Set Content-Type with bb_reply_header().
 */
static inline int bb_reply_file(struct bb_request *rq, int fd, int64_t length)
{
    return rq->api->reply_file(rq, fd, length);
}

/*
 * Answers with the standard error body; returns the status. A 403 without text says "Forbidden". A
 * 409 gets "success": false.
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

/* Like bb_fail() with a plain text instead of a format, or NULL. */
static inline int bb_fail_text(struct bb_request *rq, int status, const char *text)
{
    return rq->api->fail_text(rq, status, text);
}

/* Answers 400 with an error about a field: {"errors":[{"field":…,"problem":…}]}. */
BB_PRINTF(3, 4)
static inline int bb_invalid(struct bb_request *rq, const char *field, const char *problem, ...)
{
    va_list args;

    va_start(args, problem);
    int answered = rq->api->vinvalid(rq, field, problem, args);
    va_end(args);
    return answered;
}

/* Like bb_invalid() with a plain text instead of a format. */
static inline int bb_invalid_text(struct bb_request *rq, const char *field, const char *problem)
{
    return rq->api->invalid_text(rq, field, problem);
}

/*
 * Answers 400 with a list of {"field","problem"}, which is taken, and the message that the host
 * uses for its own checks. For invalid requests.
 */
static inline int bb_refuse(struct bb_request *rq, json_t *errors)
{
    return rq->api->refuse(rq, errors);
}

/*
 * Like bb_refuse() with another status and a message as for bb_fail(). For requests that are valid
 * but not possible (409); use bb_refuse() for a 400.
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

/* Like bb_fail_listed() with a plain text instead of a format. */
static inline int bb_fail_listed_text(struct bb_request *rq, int status, json_t *errors,
                                      const char *text)
{
    return rq->api->fail_listed_text(rq, status, errors, text);
}

/*
 * Answers for the call that just failed (a query, a commit, an offload, Redis): 503 with
 * Retry-After if a retry can help, 409 for a unique violation, otherwise 500.
 */
static inline int bb_failed(struct bb_request *rq)
{
    return rq->api->failed(rq);
}

/*
 * Adds a text to the array `warnings` of the answer, provided that the answer is a success and an
 * object. For ignored input, and for values so unlikely that the client should check them. Begin
 * with the field: "capacity: is in kW".
 */
BB_PRINTF(2, 3)
static inline void bb_warn(struct bb_request *rq, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rq->api->vwarn(rq, format, args);
    va_end(args);
}

/* Like bb_warn() with a plain text instead of a format. */
static inline void bb_warn_text(struct bb_request *rq, const char *text)
{
    rq->api->warn_text(rq, text);
}

/*
 * Checks the organization that the caller asked for: `asked` is its organizationId, 0 if absent.
 * Sets *organization to it, or to 0 if none was named. Accounts may always name their own
 * organization; Admins may name any, and accounts that act for several organizations one of these.
 * Otherwise the answer is 403. If an account acts for exactly one organization, any other number is
 * ignored with a warning. Returns 0, or the status of the answer.
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
 * Sets *organization to the one organization that a request acts in: the requested one (see
 * bb_organization()), or else the caller's own. Admins, and ApiUsers who act for several
 * organizations, must name one; otherwise the answer is 400. Callers without an organization are
 * answered 403. The caller must check that an organization named by an Admin exists. Returns 0, or
 * the status of the answer.
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

/* Adds a header to the answer. Returns 0, or -1 if the name or value is not valid in a header. */
static inline int bb_reply_header(struct bb_request *rq, const char *name, const char *value)
{
    return rq->api->reply_header(rq, name, value);
}

/* Adds Link: <this target with after=cursor>; rel="next". */
static inline int bb_reply_next(struct bb_request *rq, const char *cursor)
{
    return rq->api->reply_next(rq, cursor);
}

/* Returns JSON as the host writes it in answers: *length bytes, followed by a NUL. `length` may be
 * NULL. */
static inline char *bb_json(struct bb_request *rq, const json_t *json, size_t *length)
{
    return rq->api->json(rq, json, length);
}

#endif
