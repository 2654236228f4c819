#ifndef BUSBAR_REPLY_H
#define BUSBAR_REPLY_H 
#include <busbar/request.h>
static inline int bb_reply(struct bb_request *rq, int status, json_t *json)
{
    return rq->api->reply(rq, status, json);
}
static inline int bb_reply_bytes(struct bb_request *rq, int status, const char *type,
                                 const void *bytes, size_t length)
{
    return rq->api->reply_bytes(rq, status, type, bytes, length);
}
static inline int bb_reply_file(struct bb_request *rq, int fd, int64_t length)
{
    return rq->api->reply_file(rq, fd, length);
}
BB_PRINTF(3, 4)
static inline int bb_fail(struct bb_request *rq, int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int answered = rq->api->vfail(rq, status, format, args);
    va_end(args);
    return answered;
}
static inline int bb_fail_text(struct bb_request *rq, int status, const char *text)
{
    return rq->api->fail_text(rq, status, text);
}
BB_PRINTF(3, 4)
static inline int bb_invalid(struct bb_request *rq, const char *field, const char *problem, ...)
{
    va_list args;
    va_start(args, problem);
    int answered = rq->api->vinvalid(rq, field, problem, args);
    va_end(args);
    return answered;
}
static inline int bb_invalid_text(struct bb_request *rq, const char *field, const char *problem)
{
    return rq->api->invalid_text(rq, field, problem);
}
static inline int bb_refuse(struct bb_request *rq, json_t *errors)
{
    return rq->api->refuse(rq, errors);
}
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
static inline int bb_fail_listed_text(struct bb_request *rq, int status, json_t *errors,
                                      const char *text)
{
    return rq->api->fail_listed_text(rq, status, errors, text);
}
static inline int bb_failed(struct bb_request *rq)
{
    return rq->api->failed(rq);
}
BB_PRINTF(2, 3)
static inline void bb_warn(struct bb_request *rq, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    rq->api->vwarn(rq, format, args);
    va_end(args);
}
static inline void bb_warn_text(struct bb_request *rq, const char *text)
{
    rq->api->warn_text(rq, text);
}
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
static inline int bb_reply_header(struct bb_request *rq, const char *name, const char *value)
{
    return rq->api->reply_header(rq, name, value);
}
static inline int bb_reply_next(struct bb_request *rq, const char *cursor)
{
    return rq->api->reply_next(rq, cursor);
}
static inline char *bb_json(struct bb_request *rq, const json_t *json, size_t *length)
{
    return rq->api->json(rq, json, length);
}
#endif
