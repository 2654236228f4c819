/*
 * A request: one piece of work on a fiber of one event loop. An HTTP request, a job's run, a
 * command and a committed hook are all requests; those that are not HTTP have no segments, query
 * or principal, and what they reply is ignored.
 *
 * Code is straight-line: bb_query(), bb_commit(), bb_offload(), bb_redis() and whatever calls them
 * park the fiber, and the loop goes on with others. Between such calls nothing else runs on this
 * loop, so keep it short: nothing may block (that is what bb_offload() is for). A fiber's stack is
 * 64 KiB: no large arrays, no recursion over input.
 *
 * Memory: bb_alloc() and everything that a wrapper here returns lives until the request has been
 * answered, unless it says otherwise. All functions are for the request's own fiber only.
 */
#ifndef BUSBAR_REQUEST_H
#define BUSBAR_REQUEST_H

#include <busbar/host.h>

struct bb_request {
    size_t size;
    const struct bb_api *api;
    struct bb_host *host;                 /* of the module whose code runs */
    void *state;                          /* host->state */
    const struct bb_principal *principal; /* NULL: public route, job, hook, command */
};

/* Zeroed memory. Never NULL: a request that is out of memory ends with 503. */
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

/* Calls undo(arg) when the request ends, whichever way; last deferred, first undone. */
static inline void bb_defer(struct bb_request *rq, void (*undo)(void *), void *arg)
{
    rq->api->defer(rq, undo, arg);
}

/*
 * Calls work(rq, arg) with memory of its own, and returns what that returns. What is allocated,
 * deferred or queried meanwhile ends with it; what was there before stays. For jobs and commands
 * that do the same again and again, whose memory would else grow until their end. Not for answers:
 * headers that are set in it are gone with it. Within another one it is a plain call. Since
 * minor 1.
 */
static inline int bb_scratch(struct bb_request *rq, int (*work)(struct bb_request *rq, void *arg),
                             void *arg)
{
    return rq->api->scratch(rq, work, arg);
}

/* A declared segment of the path, decoded and checked. Never NULL. */
static inline const char *bb_segment(struct bb_request *rq, const char *name)
{
    return rq->api->segment(rq, name);
}

static inline int64_t bb_segment_int(struct bb_request *rq, const char *name)
{
    return rq->api->segment_int(rq, name);
}

/* A declared parameter of the query, decoded and checked; NULL if absent. */
static inline const char *bb_arg(struct bb_request *rq, const char *name)
{
    return rq->api->arg(rq, name);
}

static inline int64_t bb_arg_int(struct bb_request *rq, const char *name, int64_t absent)
{
    return rq->api->arg_int(rq, name, absent);
}

/* The checked body (a command's options, too): an object of declared fields only. Borrowed. */
static inline json_t *bb_body(struct bb_request *rq)
{
    return rq->api->body(rq);
}

/* An integer that the tables of both body and query declare; the body's where both name one. */
static inline int64_t bb_given_int(struct bb_request *rq, const char *name, int64_t absent)
{
    const json_t *given = json_object_get(bb_body(rq), name);

    return json_is_integer(given) ? json_integer_value(given) : bb_arg_int(rq, name, absent);
}

/* A string of the body; NULL if absent. Borrowed. */
static inline const char *bb_text(struct bb_request *rq, const char *name)
{
    return json_string_value(json_object_get(bb_body(rq), name));
}

/* A file that came in a multipart body; lives as long as the request. */
struct bb_file {
    size_t size;
    const char *part;   /* name of the part */
    const char *name;   /* as the client has it: data, never a path; UTF-8, up to 255 characters */
    const char *path;   /* where it lies now, on disk (fsync) */
    const char *sha256; /* of its content, in lower-case hexadecimal */
    int64_t length;
};

/*
 * The files of the body, in the order that they came; NULL behind the last. They were written in
 * `files_pool` as they arrived, below `incoming/` in the directory `files_in`, both of the route.
 * Whoever wants to keep one gives it another name in the same file system (rename, link): what
 * still has its path when the request ends is deleted, and what a crash leaves in `incoming/` is
 * the module's to sweep.
 */
static inline const struct bb_file *bb_file(struct bb_request *rq, size_t index)
{
    return rq->api->file(rq, index);
}

/*
 * A header of the request by any case of its name; NULL if absent. Several lines of one name are
 * joined by commas. Authorization is never shown.
 * "traceparent" is that of bb_traceparent().
 */
static inline const char *bb_header(struct bb_request *rq, const char *name)
{
    return rq->api->header(rq, name);
}

/*
 * The value of the header traceparent (W3C Trace Context) for what the module calls for this
 * request. It is in the client's trace if the client sent a valid one, else in a new one. A
 * committed hook is in the trace of the request that raised the event, a job's run or a command in
 * one of its own. Never NULL. Since minor 7; bb_header() had it for HTTP requests since minor 6.
 */
static inline const char *bb_traceparent(struct bb_request *rq)
{
    return rq->api->header(rq, "traceparent");
}

/* The client's address as text, through the trusted proxies. Never NULL. */
static inline const char *bb_client_address(struct bb_request *rq)
{
    return rq->api->client_address(rq);
}

/*
 * All metrics of the host and its modules in the text format of Prometheus, version 0.0.4. Since
 * minor 1.
 */
static inline char *bb_metrics(struct bb_request *rq, size_t *length)
{
    return rq->api->metrics(rq, length);
}

/*
 * Checks an object (borrowed) against fields as the host checks a body. A new object of the
 * declared fields, the caller's; NULL after {"field","problem"} of each problem was appended to
 * `errors` (none: out of memory).
 */
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

/* The same with a text, which is no format. Since minor 3. */
static inline void bb_log_text(struct bb_request *rq, enum bb_level level, const char *text)
{
    rq->api->log_text(rq, level, text);
}

/* Commands: text for standard output. */
BB_PRINTF(2, 3)
static inline void bb_print(struct bb_request *rq, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rq->api->vprint(rq, format, args);
    va_end(args);
}

/* The same with a text, which is no format. Since minor 3. */
static inline void bb_print_text(struct bb_request *rq, const char *text)
{
    rq->api->print_text(rq, text);
}

/*
 * A job that ends its run with work left: it runs again as soon as others have had their turn, and
 * not only when it is due. Nothing where the host is stopping, or another generation has the job.
 * Keep runs to about a second, so that a stop and whoever waits for a connection need not wait
 * long. Since minor 2.
 */
static inline void bb_again(struct bb_request *rq)
{
    rq->api->again(rq);
}

/*
 * Calls work(rq, arg) as the module of a handle (struct bb_given) and returns what that returns:
 * meanwhile rq->host and rq->state are that module's own, so that its pools, metrics and events are
 * within reach. Services of a kind are called so. Since minor 4.
 */
static inline int bb_call_as(struct bb_request *rq, struct bb_host *giver,
                             int (*work)(struct bb_request *rq, void *arg), void *arg)
{
    return rq->api->call_as(rq, giver, work, arg);
}

/*
 * What holds up an event loop of the host, as a sentence without its full stop, for an answer 503;
 * NULL: all loops turn. It lasts as long as the request. Since minor 9.
 */
static inline const char *bb_standstill(struct bb_request *rq)
{
    return rq->api->standstill(rq);
}

/*
 * Why sending, jobs and calls to other servers are paused, as a sentence without its full stop;
 * NULL: they are not. An operator paused them, or the database was restored or cloned, and would
 * repeat what the original has done. A module that acts on the world outside asks before it does.
 * It lasts as long as the request. Since minor 12.
 */
static inline const char *bb_pause_reason(struct bb_request *rq)
{
    return rq->api->pause_reason(rq);
}

/* The channel of `busbar pause` and `busbar resume`, with the payload "paused" or "resumed". The
 * state is in the database: the SQL function busbar_pause_reason() returns NULL unless it is
 * paused. */
#define BB_PAUSE_CHANNEL "busbar_pause"

/* How many HTTP requests the host has answered since its start. Since minor 9. */
static inline uint64_t bb_answered(struct bb_request *rq)
{
    return rq->api->answered(rq);
}

/*
 * The value of a JSON text that the module stored itself, as in a column: the caller's. NULL: then
 * bb_failed() answers, 503 where memory ran out, and 500 where the text is NULL or no JSON. Do not
 * call json_loads() for it: without memory jansson leaves bytes out of texts and says nothing.
 * Since minor 7.
 */
static inline json_t *bb_json_read(struct bb_request *rq, const char *text)
{
    return rq->api->json_read(rq, text);
}

/* A new random UUID (version 7, so that rows made together lie together). */
static inline char *bb_new_uuid(struct bb_request *rq)
{
    return rq->api->new_uuid(rq);
}

/* "2026-04-01T12:00:00.000Z" of milliseconds since 1970. */
static inline char *bb_time_text(struct bb_request *rq, int64_t wall_ms)
{
    return rq->api->time_text(rq, wall_ms);
}

#include <busbar/reply.h>
#include <busbar/wait.h>

#endif
