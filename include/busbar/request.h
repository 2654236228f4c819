/*
 * A request: one unit of work on a fiber of one event loop. HTTP requests, job runs, commands and
 * committed hooks are all requests. Only HTTP requests have segments, a query and a principal;
 * replies of other requests are ignored.
 *
 * Handlers are sequential code: bb_query(), bb_commit(), bb_offload(), bb_redis() and functions
 * that call them park the fiber until they have a result, so that the loop runs other fibers.
 * Between such calls nothing else runs on this loop, so keep this code short and never block (use
 * bb_offload() instead). The stack of a fiber has 64 KiB: no large arrays, no deep recursion.
 *
 * Memory: bb_alloc() and everything that a function here returns lives until the request has been
 * answered, unless documented otherwise. A function that "takes" an argument owns it from then on,
 * even if the function fails. All functions must be called from the request's own fiber.
 */
#ifndef BUSBAR_REQUEST_H
#define BUSBAR_REQUEST_H

#include <busbar/host.h>

struct bb_request {
    size_t size;
    const struct bb_api *api;
    struct bb_host *host;                 /* the module whose code is running */
    void *state;                          /* host->state */
    const struct bb_principal *principal; /* NULL for public routes, jobs, hooks and commands */
};

/* Returns zeroed memory, never NULL: if memory runs out, the request ends with 503. */
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

/* Makes the host call undo(arg) when the request ends for any reason, in reverse order of calls. */
static inline void bb_defer(struct bb_request *rq, void (*undo)(void *), void *arg)
{
    rq->api->defer(rq, undo, arg);
}

/*
 * Calls work(rq, arg) with a separate memory arena, and returns the result of `work`. Everything
 * allocated, deferred or queried during the call is released when `work` ends; earlier memory
 * stays. Use it in jobs and commands that repeat the same work, because their memory would grow
 * until they end. Do not reply in `work`; the headers would be lost. Nested calls share the arena.
 */
static inline int bb_scratch(struct bb_request *rq, int (*work)(struct bb_request *rq, void *arg),
                             void *arg)
{
    return rq->api->scratch(rq, work, arg);
}

/*
 * Parks the request if it has run for 0.5 ms, so that other requests of its event loop can run.
 * Call it for each row of a loop over many rows. Do not call it while you hold a mutex, or row
 * locks in a transaction. In a `within` hook it has no effect.
 */
static inline void bb_yield(struct bb_request *rq)
{
    rq->api->yield_now(rq);
}

/*
 * Calls work(rq, arg) and returns 0. If memory runs out in a function of the host that `work`
 * calls, the request does not end there: bb_guard() returns -1, and `work` does not continue
 * (longjmp()).
 *
 * Languages with destructors call each function of the host in this way, from a `work` without
 * destructors. After -1, the module returns from its functions without calling the host again, and
 * then ends the request with bb_alloc(rq, SIZE_MAX), which does not return. Calls can be nested.
 */
static inline int bb_guard(struct bb_request *rq, void (*work)(struct bb_request *rq, void *arg),
                           void *arg)
{
    return rq->api->guard(rq, work, arg);
}

/* Returns a declared segment of the path, decoded and checked. Never NULL. */
static inline const char *bb_segment(struct bb_request *rq, const char *name)
{
    return rq->api->segment(rq, name);
}

static inline int64_t bb_segment_int(struct bb_request *rq, const char *name)
{
    return rq->api->segment_int(rq, name);
}

/* Returns a declared parameter of the query, decoded and checked; NULL if absent. */
static inline const char *bb_arg(struct bb_request *rq, const char *name)
{
    return rq->api->arg(rq, name);
}

static inline int64_t bb_arg_int(struct bb_request *rq, const char *name, int64_t absent)
{
    return rq->api->arg_int(rq, name, absent);
}

/* Returns the checked body, or the options of a command: a JSON object, which the host owns. */
static inline json_t *bb_body(struct bb_request *rq)
{
    return rq->api->body(rq);
}

/* Returns an integer from the body, or else from the query; `absent` if neither has it. */
static inline int64_t bb_given_int(struct bb_request *rq, const char *name, int64_t absent)
{
    const json_t *given = json_object_get(bb_body(rq), name);

    return json_is_integer(given) ? json_integer_value(given) : bb_arg_int(rq, name, absent);
}

/* Returns a string of the body; NULL if absent. Borrowed. */
static inline const char *bb_text(struct bb_request *rq, const char *name)
{
    return json_string_value(json_object_get(bb_body(rq), name));
}

/* Describes a file of a multipart body. Lives as long as the request. */
struct bb_file {
    size_t size;
    const char *part;   /* name of the part */
    const char *name;   /* as the client sent it: data, never a path; UTF-8, up to 255 characters */
    const char *path;   /* where the file is stored now, synced to disk (fsync) */
    const char *sha256; /* of the content, in lower-case hexadecimal */
    int64_t length;
};

/*
 * Returns the file with this index, in the order in which the files were sent; NULL after the last
 * one. Threads of the route's `files_pool` have written the files to `incoming/` in the directory
 * that the setting `files_in` names. If this setting belongs to another module, which is not
 * loaded, the route answers 409 to files. To keep a file, rename or link it within the same file
 * system, because the host deletes `path` when the request ends. The module of the setting must
 * delete files that a crash left in `incoming/`.
 */
static inline const struct bb_file *bb_file(struct bb_request *rq, size_t index)
{
    return rq->api->file(rq, index);
}

/*
 * Returns a header of the request; NULL if absent. The case of the name does not matter. Several
 * lines with the same name are joined by commas. For Authorization it returns NULL, except on a
 * route with BB_OAUTH_ERRORS; for traceparent it returns the value of bb_traceparent().
 */
static inline const char *bb_header(struct bb_request *rq, const char *name)
{
    return rq->api->header(rq, name);
}

/*
 * Returns the header traceparent (W3C Trace Context) for calls that the module makes on behalf of
 * this request. The trace is the client's if the client sent a valid header, otherwise a new one. A
 * committed hook is part of the trace of the request that raised the event; each job run and
 * command has a separate trace. Never NULL.
 */
static inline const char *bb_traceparent(struct bb_request *rq)
{
    return rq->api->header(rq, "traceparent");
}

/* Returns the client's address as text, as reported by trusted proxies. Never NULL. */
static inline const char *bb_client_address(struct bb_request *rq)
{
    return rq->api->client_address(rq);
}

/* Returns all metrics in Prometheus's text format 0.0.4, in the request's memory; sets *length. */
static inline char *bb_metrics(struct bb_request *rq, size_t *length)
{
    return rq->api->metrics(rq, length);
}

/*
 * Checks an object (borrowed) against fields in the way the host checks a body. Returns a new
 * object with the declared fields, which the caller owns. If there are problems, appends
 * {"field","problem"} for each to `errors` and returns NULL. Also returns NULL if memory ran out,
 * without appending anything.
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

/* Like bb_log(), but `text` is not a format. */
static inline void bb_log_text(struct bb_request *rq, enum bb_level level, const char *text)
{
    rq->api->log_text(rq, level, text);
}

/* Prints to standard output. For commands. */
BB_PRINTF(2, 3)
static inline void bb_print(struct bb_request *rq, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    rq->api->vprint(rq, format, args);
    va_end(args);
}

/* Like bb_print(), but `text` is not a format. */
static inline void bb_print_text(struct bb_request *rq, const char *text)
{
    rq->api->print_text(rq, text);
}

/*
 * Makes a job run again after other jobs that are due, instead of after `every_s`. Call it in a job
 * whose run ends with work left. It has no effect if the host is stopping, or if a reload has
 * disabled the module. Keep each run to about a second, so that it does not delay shutdown and
 * requests that wait for a connection.
 */
static inline void bb_again(struct bb_request *rq)
{
    rq->api->again(rq);
}

/*
 * Calls work(rq, arg) as the module with the handle `giver`, and returns the result of `work`.
 * During the call rq->host and rq->state belong to this module, so that its pools, metrics and
 * events can be used. Call a service that several modules provide (struct bb_given) in this way.
 */
static inline int bb_call_as(struct bb_request *rq, struct bb_host *giver,
                             int (*work)(struct bb_request *rq, void *arg), void *arg)
{
    return rq->api->call_as(rq, giver, work, arg);
}

/*
 * Records the request in the audit log before it changes anything, if a module provides the service
 * "auditor" (services.h); the host records the status later. Ends the request with 503 if recording
 * fails. Has no effect if the request is recorded already. May park.
 *
 * The host calls this before the handler of a route with BB_AUDITED. The handler of a public route
 * must call bb_audit() after the checks that refuse a flood of requests, such as a limit of
 * attempts. `email` is the e-mail in the request, which is not verified, or NULL.
 */
static inline void bb_audit(struct bb_request *rq, const char *email)
{
    rq->api->audit(rq, email);
}

/*
 * Returns why a dependency that bb_probe() reports as down does not serve, such as "commits wait
 * for a synchronous standby"; NULL if no more is known. Only for BB_HOST and BB_DATABASE. The text
 * lives as long as the request.
 */
static inline const char *bb_probe_problem(struct bb_request *rq, enum bb_dependency which)
{
    return rq->api->probe_problem(rq, which);
}

/*
 * Returns a sentence without a full stop that names what blocks an event loop of the host, to be
 * used in a 503 reply; NULL if no loop is blocked. The text lives as long as the request.
 */
static inline const char *bb_standstill(struct bb_request *rq)
{
    return rq->api->standstill(rq);
}

/*
 * Returns a sentence without a full stop that explains why deliveries, jobs and calls to other
 * servers are paused; NULL if they are not. They are paused if an operator paused them, or if the
 * database is a restored or cloned copy, which would repeat what the original has already done. A
 * module that causes effects outside the database must check this first. The text lives as long as
 * the request.
 */
static inline const char *bb_pause_reason(struct bb_request *rq)
{
    return rq->api->pause_reason(rq);
}

/*
 * The channel that `busbar pause` and `busbar resume` notify, with the payload "paused" or
 * "resumed". The database stores the state: the SQL function busbar_pause_reason() returns NULL if
 * nothing is paused.
 */
#define BB_PAUSE_CHANNEL "busbar_pause"

/* Returns the number of HTTP requests that the host has answered since its start. */
static inline uint64_t bb_answered(struct bb_request *rq)
{
    return rq->api->answered(rq);
}

/*
 * Parses JSON that the module itself stored, for instance in a column. Returns a value that the
 * caller owns; NULL on error. After an error bb_failed() answers with 503 if memory ran out, and
 * with 500 if the text is NULL or invalid. Do not use json_loads() instead: if memory runs out,
 * jansson silently drops bytes of strings.
 */
static inline json_t *bb_json_read(struct bb_request *rq, const char *text)
{
    return rq->api->json_read(rq, text);
}

/* Returns a new random UUID (version 7, so that rows created together are stored together). */
static inline char *bb_new_uuid(struct bb_request *rq)
{
    return rq->api->new_uuid(rq);
}

/* Formats milliseconds since 1970 as "2026-04-01T12:00:00.000Z". */
static inline char *bb_time_text(struct bb_request *rq, int64_t wall_ms)
{
    return rq->api->time_text(rq, wall_ms);
}

#include <busbar/reply.h>
#include <busbar/wait.h>

#endif
