/*
 * What a request is answered with: JSON, bytes, files, errors, warnings, headers. Each function
 * that answers returns the status, so that a handler ends with `return bb_reply(…)`. What is said
 * of memory and fibers in request.h goes for them, too.
 */
#ifndef BUSBAR_REPLY_H
#define BUSBAR_REPLY_H

#include <busbar/request.h>

/*
 * Answers. `json` is taken, and nobody else may touch what it holds. NULL is right for 204 and 304,
 * which have no body; else the answer is 503 where JSON of this request got no memory, and 500,
 * with a line in the log, where json_pack() failed for another reason. Returns the status: `return
 * bb_reply(rq, 200, json)`. Parks while a large answer is written.
 */
static inline int bb_reply(struct bb_request *rq, int status, json_t *json)
{
    return rq->api->reply(rq, status, json);
}

/* The same with bytes of another Content-Type, which are copied. Since minor 1. */
static inline int bb_reply_bytes(struct bb_request *rq, int status, const char *type,
                                 const void *bytes, size_t length)
{
    return rq->api->reply_bytes(rq, status, type, bytes, length);
}

/*
 * Answers 200 with `length` bytes of a file as they are, sent while they are read. `fd` is taken.
 * Set Content-Type by bb_reply_header().
 */
static inline int bb_reply_file(struct bb_request *rq, int fd, int64_t length)
{
    return rq->api->reply_file(rq, fd, length);
}

/*
 * Answers with the error body of the service; returns the status. 403 without text: "Forbidden".
 * A 409 gets "success": false.
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

/* The same with a text, which is no format, or NULL. Since minor 3. */
static inline int bb_fail_text(struct bb_request *rq, int status, const char *text)
{
    return rq->api->fail_text(rq, status, text);
}

/* A 400 that names a field: {"errors":[{"field":…,"problem":…}]}. */
BB_PRINTF(3, 4)
static inline int bb_invalid(struct bb_request *rq, const char *field, const char *problem, ...)
{
    va_list args;

    va_start(args, problem);
    int answered = rq->api->vinvalid(rq, field, problem, args);
    va_end(args);
    return answered;
}

/* The same with a text, which is no format. Since minor 3. */
static inline int bb_invalid_text(struct bb_request *rq, const char *field, const char *problem)
{
    return rq->api->invalid_text(rq, field, problem);
}

/*
 * A 400 with a list of {"field","problem"}, which is taken, in the words that the host uses for its
 * own checks: what to say of a request that is not valid. Since minor 1.
 */
static inline int bb_refuse(struct bb_request *rq, json_t *errors)
{
    return rq->api->refuse(rq, errors);
}

/*
 * The same with another status and words of one's own, as bb_fail() takes them: what is valid, and
 * yet not possible (409). A 400 is bb_refuse()'s. Since minor 1.
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

/* The same with a text, which is no format. Since minor 3. */
static inline int bb_fail_listed_text(struct bb_request *rq, int status, json_t *errors,
                                      const char *text)
{
    return rq->api->fail_listed_text(rq, status, errors, text);
}

/*
 * Answers for the call that just failed (a query, a commit, an offload, Redis): 503 with
 * Retry-After where trying again helps, 409 for a unique violation, 500 otherwise.
 */
static inline int bb_failed(struct bb_request *rq)
{
    return rq->api->failed(rq);
}

/*
 * Adds a text to the array `warnings` of the answer, if that is a success and an object: what was
 * passed over, or is so unlikely that the client should look again. Say the field first:
 * "capacity: is in kW". Since minor 2.
 */
BB_PRINTF(2, 3)
static inline void bb_warn(struct bb_request *rq, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rq->api->vwarn(rq, format, args);
    va_end(args);
}

/* The same with a text, which is no format. Since minor 3. */
static inline void bb_warn_text(struct bb_request *rq, const char *text)
{
    rq->api->warn_text(rq, text);
}

/*
 * Which organisation the caller acts in, as `asked` (its organizationId; 0: none) has it: into
 * *organisation, 0 where it names none. One's own always, an Admin any, whoever acts for several
 * one of these, else 403. An account with exactly one organisation may send any number: it is
 * passed over with a warning. Returns 0, or the status of the answer it gave. Since minor 2.
 */
static inline int bb_organisation(struct bb_request *rq, int64_t asked, int64_t *organisation)
{
    const struct bb_principal *who = rq->principal;

    *organisation = asked;
    if (!asked || who->role == BB_ROLE_ADMIN || asked == who->organisation)
        return 0;
    for (size_t i = 0; i < who->organisation_count; i++)
        if (who->organisations[i] == asked)
            return 0;
    if (who->organisation_count != 1)
        return bb_fail(rq, 403, "You may not act in this organization");
    *organisation = 0;
    bb_warn(rq, "organizationId: %lld is ignored: you act in organization %lld", (long long)asked,
            (long long)who->organisations[0]);
    return 0;
}

/*
 * The one organisation that a request acts in, into *organisation: the one asked for (as with
 * bb_organisation()), or else the caller's own. An Admin, and an ApiUser who acts for several, has
 * to name one: 400. Who acts in none is answered 403. That the one an Admin names exists is for the
 * caller to check. Returns 0, or the status of the answer it gave.
 */
static inline int bb_home(struct bb_request *rq, int64_t asked, int64_t *organisation)
{
    const struct bb_principal *who = rq->principal;
    int refused = bb_organisation(rq, asked, organisation);

    if (refused || *organisation)
        return refused;
    if (who->role == BB_ROLE_ADMIN ||
        (who->role == BB_ROLE_API_USER && who->organisation_count > 1))
        return bb_invalid(rq, "organizationId", "is required");
    *organisation = who->organisation_count == 1 ? who->organisations[0] : who->organisation;
    return *organisation ? 0 : bb_fail(rq, 403, "You act in no organization");
}

/* Adds a header to the answer. 0, or -1 where the name or value is not fit for one. */
static inline int bb_reply_header(struct bb_request *rq, const char *name, const char *value)
{
    return rq->api->reply_header(rq, name, value);
}

/* Adds Link: <this target with after=cursor>; rel="next". */
static inline int bb_reply_next(struct bb_request *rq, const char *cursor)
{
    return rq->api->reply_next(rq, cursor);
}

/* JSON as the host writes it in answers: bytes of *length, and a NUL behind them. */
static inline char *bb_json(struct bb_request *rq, const json_t *json, size_t *length)
{
    return rq->api->json(rq, json, length);
}

#endif
