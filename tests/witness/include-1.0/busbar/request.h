#ifndef BUSBAR_REQUEST_H
#define BUSBAR_REQUEST_H 
#include <busbar/host.h>
struct bb_request {
    size_t size;
    const struct bb_api *api;
    struct bb_host *host;
    void *state;
    const struct bb_principal *principal;
};
static inline void *bb_alloc(struct bb_request *rq, size_t size)
{
    return rq->api->alloc(rq, size);
}
BB_PRINTF(2, 3)
static inline char *bb_format(struct bb_request *rq, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = rq->api->vformat(rq, format, args);
    va_end(args);
    return text;
}
static inline void bb_defer(struct bb_request *rq, void (*undo)(void *), void *arg)
{
    rq->api->defer(rq, undo, arg);
}
static inline int bb_scratch(struct bb_request *rq, int (*work)(struct bb_request *rq, void *arg),
                             void *arg)
{
    return rq->api->scratch(rq, work, arg);
}
static inline const char *bb_segment(struct bb_request *rq, const char *name)
{
    return rq->api->segment(rq, name);
}
static inline int64_t bb_segment_int(struct bb_request *rq, const char *name)
{
    return rq->api->segment_int(rq, name);
}
static inline const char *bb_arg(struct bb_request *rq, const char *name)
{
    return rq->api->arg(rq, name);
}
static inline int64_t bb_arg_int(struct bb_request *rq, const char *name, int64_t absent)
{
    return rq->api->arg_int(rq, name, absent);
}
static inline json_t *bb_body(struct bb_request *rq)
{
    return rq->api->body(rq);
}
static inline int64_t bb_given_int(struct bb_request *rq, const char *name, int64_t absent)
{
    const json_t *given = json_object_get(bb_body(rq), name);
    return json_is_integer(given) ? json_integer_value(given) : bb_arg_int(rq, name, absent);
}
static inline const char *bb_text(struct bb_request *rq, const char *name)
{
    return json_string_value(json_object_get(bb_body(rq), name));
}
struct bb_file {
    size_t size;
    const char *part;
    const char *name;
    const char *path;
    const char *sha256;
    int64_t length;
};
static inline const struct bb_file *bb_file(struct bb_request *rq, size_t index)
{
    return rq->api->file(rq, index);
}
static inline const char *bb_header(struct bb_request *rq, const char *name)
{
    return rq->api->header(rq, name);
}
static inline const char *bb_traceparent(struct bb_request *rq)
{
    return rq->api->header(rq, "traceparent");
}
static inline const char *bb_client_address(struct bb_request *rq)
{
    return rq->api->client_address(rq);
}
static inline char *bb_metrics(struct bb_request *rq, size_t *length)
{
    return rq->api->metrics(rq, length);
}
static inline json_t *bb_check(struct bb_request *rq, const struct bb_table *fields, json_t *object,
                               json_t *errors)
{
    return rq->api->check(rq, fields, object, errors);
}
BB_PRINTF(3, 4)
static inline void bb_log(struct bb_request *rq, enum bb_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    rq->api->log(rq, level, format, args);
    va_end(args);
}
static inline void bb_log_text(struct bb_request *rq, enum bb_level level, const char *text)
{
    rq->api->log_text(rq, level, text);
}
BB_PRINTF(2, 3)
static inline void bb_print(struct bb_request *rq, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    rq->api->vprint(rq, format, args);
    va_end(args);
}
static inline void bb_print_text(struct bb_request *rq, const char *text)
{
    rq->api->print_text(rq, text);
}
static inline void bb_again(struct bb_request *rq)
{
    rq->api->again(rq);
}
static inline int bb_call_as(struct bb_request *rq, struct bb_host *giver,
                             int (*work)(struct bb_request *rq, void *arg), void *arg)
{
    return rq->api->call_as(rq, giver, work, arg);
}
static inline const char *bb_standstill(struct bb_request *rq)
{
    return rq->api->standstill(rq);
}
static inline const char *bb_pause_reason(struct bb_request *rq)
{
    return rq->api->pause_reason(rq);
}
#define BB_PAUSE_CHANNEL "busbar_pause"
static inline uint64_t bb_answered(struct bb_request *rq)
{
    return rq->api->answered(rq);
}
static inline json_t *bb_json_read(struct bb_request *rq, const char *text)
{
    return rq->api->json_read(rq, text);
}
static inline char *bb_new_uuid(struct bb_request *rq)
{
    return rq->api->new_uuid(rq);
}
static inline char *bb_time_text(struct bb_request *rq, int64_t wall_ms)
{
    return rq->api->time_text(rq, wall_ms);
}
#include <busbar/reply.h>
#include <busbar/wait.h>
#endif
