/*
 * The module's handle: one for each module in each generation, valid from `open` until `close`
 * returns. Every function may be called from any host thread unless documented otherwise.
 */
#ifndef BUSBAR_HOST_H
#define BUSBAR_HOST_H

#include <busbar/api.h>

struct bb_host {
    size_t size;
    const struct bb_api *api;
    const struct bb_module *module;
    void *state; /* the state that `open` returned */
};

/* Zeroed memory that lives as long as the generation; NULL if out of memory. Only in `open`. */
static inline void *bb_host_alloc(struct bb_host *host, size_t size)
{
    return host->api->host_alloc(host, size);
}

/*
 * Returns a setting of the module's section, by the name in its table: its value or its default.
 * Text is borrowed and lives as long as the generation. If the name is undeclared or has another
 * type, an error is logged and the result is empty or 0; in `open` the host then refuses the
 * generation.
 */
static inline const char *bb_setting_text(struct bb_host *host, const char *name)
{
    return host->api->setting_text(host, name);
}

/* For BB_INT and BB_BOOL (0 or 1). */
static inline int64_t bb_setting_int(struct bb_host *host, const char *name)
{
    return host->api->setting_int(host, name);
}

static inline double bb_setting_number(struct bb_host *host, const char *name)
{
    return host->api->setting_number(host, name);
}

/* For BB_LIST and BB_OBJECT; borrowed; NULL if absent. */
static inline json_t *bb_setting_json(struct bb_host *host, const char *name)
{
    return host->api->setting_json(host, name);
}

/*
 * Returns the module's struct of `settings_size` bytes, in which each bound setting (struct
 * bb_bind) has its value or its default; the rest is zero. The struct is created before `open`,
 * must not be written to, and lives as long as the generation, as do the texts and JSON that it
 * points to. NULL if the module has no `settings_size`. Any thread.
 *
 *     const struct hello_settings *settings = bb_settings(host);
 */
static inline const void *bb_settings(struct bb_host *host)
{
    return host->api->settings(host);
}

/* Sets the reason why `open` fails: `return bb_open_fail(host, "…")`. Always returns -1. */
BB_PRINTF(2, 3)
static inline int bb_open_fail(struct bb_host *host, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int failed = host->api->open_fail(host, format, args);
    va_end(args);
    return failed;
}

/* Like bb_open_fail() with a plain text instead of a format. */
static inline int bb_open_fail_text(struct bb_host *host, const char *text)
{
    return host->api->open_fail_text(host, text);
}

/* A service of another module of the same generation: its interface and the provider's state. */
struct bb_service {
    const void *interface; /* cast to the interface in the service's header; NULL if not provided */
    void *state;
};

/*
 * Returns a service named in `needs`, whose provider is already open, or one named in `wants`,
 * which is available from `start` on and has a NULL interface if no module provides it.
 */
static inline struct bb_service bb_service(struct bb_host *host, const char *name)
{
    return host->api->service(host, name);
}

/* One of several services of the same kind, such as "bulk rows:Devices". */
struct bb_given {
    size_t size; /* set by the caller */
    const char *name;
    unsigned version;
    const void *interface;
    struct bb_host *host; /* the provider's, for bb_call_as() */
};

/*
 * Gets the services whose names begin with `kind`, in the order of their modules; returns false
 * after the last one. Available from `start` on. `wants` needs a row for all of them: "bulk rows:*"
 * for "bulk rows:".
 */
static inline bool bb_service_at(struct bb_host *host, const char *kind, size_t index,
                                 struct bb_given *given)
{
    return host->api->service_at(host, kind, index, given);
}

/* Writes a log line. The host escapes text from outside. Do not log secrets or message texts. */
BB_PRINTF(3, 4)
static inline void bb_host_log(struct bb_host *host, enum bb_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    host->api->host_log(host, level, format, args);
    va_end(args);
}

/* Like bb_host_log() with a plain text instead of a format. */
static inline void bb_host_log_text(struct bb_host *host, enum bb_level level, const char *text)
{
    host->api->host_log_text(host, level, text);
}

/*
 * Returns for how many milliseconds from now the notifications received on channels are known to be
 * complete. The host queries PostgreSQL several times a second; when the response arrives, every
 * notification that was committed before the query was sent has been received. 0 or less: not
 * known, so look in the database.
 */
static inline int64_t bb_signals_fresh_ms(struct bb_host *host)
{
    return host->api->signals_fresh_ms(host);
}

/* The argument of a worker; valid while its function runs. */
struct bb_worker_context {
    size_t size;
    struct bb_host *host;
    int wake_fd; /* an eventfd: readable after bb_wake() and when stopping; drain it */
};

/* Whether the worker should return. */
static inline bool bb_stopping(struct bb_worker_context *context)
{
    return context->host->api->stopping(context);
}

/*
 * Returns for how many more milliseconds a worker may finish work in progress after bb_stopping():
 * a short time if the host is stopping, `reload.drain` if another generation is live. The time can
 * shrink.
 */
static inline int64_t bb_leave_ms(struct bb_worker_context *context)
{
    return context->host->api->leave_ms(context);
}

/*
 * After bb_stopping(): whether the last request of the worker's generation has ended, so that no
 * request can need the worker any more. Before that: whether no request is in progress. A worker
 * that serves requests continues until this is true, or until bb_leave_ms() have passed.
 */
static inline bool bb_drained(struct bb_worker_context *context)
{
    return context->host->api->drained(context);
}

/*
 * Whether a newer generation is live, so that this generation gets no new requests and should end
 * its long-lived work. Also true after a command with BB_COMMAND_LONG was interrupted. Any thread.
 */
static inline bool bb_superseded(struct bb_host *host)
{
    return host->api->superseded(host);
}

/* Makes the wake_fd of a worker readable. Any thread; no effect if the worker is not running. */
static inline void bb_wake(struct bb_host *host, const char *worker)
{
    host->api->wake(host, worker);
}

/*
 * Runs work(rq, arg) soon, as a request on a loop of the host. Any thread. Returns 0, or -1 if
 * memory ran out or the host is stopping: then `work` is not called, and the caller still owns
 * `arg`.
 *
 * If the request runs out of memory, it ends before or in the middle of `work`. Use bb_run_then()
 * if you have to know when it ends, or gave `arg` away.
 */
static inline int bb_run(struct bb_host *host, void (*work)(struct bb_request *rq, void *arg),
                         void *arg)
{
    return host->api->run(host, work, arg);
}

/*
 * Like bb_run(), and calls then(arg, whole) exactly once after the request has ended and its memory
 * is freed. The call is on the loop's thread and must not wait. `whole` is false if memory ran out
 * before `work` returned; `work` may not have been called at all. The module's state still exists.
 * If -1 is returned, `then` is not called.
 */
static inline int bb_run_then(struct bb_host *host, void (*work)(struct bb_request *rq, void *arg),
                              void (*then)(void *arg, bool whole), void *arg)
{
    return host->api->run_then(host, work, then, arg);
}

/* Returns the number of events that the loaded modules declare, and their names; after `open`. */
static inline size_t bb_event_names(struct bb_host *host, const char *const **names)
{
    return host->api->event_names(host, names);
}

/*
 * Returns the descriptors of this generation's modules in load order; NULL after the last one.
 * Borrowed; they live as long as the generation. Use them only to describe the modules; do not call
 * their functions. Rows of a table are `stride` bytes apart.
 */
static inline const struct bb_module *bb_module_at(struct bb_host *host, size_t index)
{
    return host->api->module_at(host, index);
}

/* Signals a completion (request.h), exactly once; it must not be used afterwards. Any thread. */
static inline void bb_completion_signal(struct bb_host *host, struct bb_completion *completion)
{
    host->api->completion_signal(completion);
}

/*
 * Increases a metric of the module's table that has no `read`: the row, the index of the label's
 * value (0 without a label), and the amount. Any thread; takes no lock.
 */
static inline void bb_metric_add(struct bb_host *host, size_t metric, size_t value, uint64_t by)
{
    host->api->metric_add(host, metric, value, by);
}

/* Milliseconds of the monotonic clock. */
static inline int64_t bb_now_ms(struct bb_host *host)
{
    return host->api->now_ms();
}

/*
 * Milliseconds since 1970-01-01T00:00:00Z by PostgreSQL's clock, which all hosts of a cluster
 * share; by this host's clock until PostgreSQL has first answered.
 */
static inline int64_t bb_wall_ms(struct bb_host *host)
{
    return host->api->wall_ms();
}

/* Fills in cryptographically strong random bytes. Returns 0 or -1. */
static inline int bb_random(struct bb_host *host, void *bytes, size_t length)
{
    (void)host;
    return host->api->random_bytes(bytes, length);
}

/*
 * Encrypts with the newest key of `secrets.keys` (AES-256-GCM). The result is bound to `purpose`:
 * decryption needs the same one. The caller frees *sealed with free(). Returns 0 or -1.
 */
static inline int bb_seal(struct bb_host *host, const void *plain, size_t length,
                          const char *purpose, unsigned char **sealed, size_t *sealed_length)
{
    return host->api->seal(host, plain, length, purpose, sealed, sealed_length);
}

/*
 * Decrypts a result of bb_seal() with any of the configured keys. *plain ends with a NUL; the
 * caller frees it with free(). Returns 0, -1 if no key decrypts it, or -2 if memory ran out; then
 * bb_reply() without JSON answers 503.
 */
static inline int bb_unseal(struct bb_host *host, const void *sealed, size_t length,
                            const char *purpose, unsigned char **plain, size_t *plain_length)
{
    return host->api->unseal(host, sealed, length, purpose, plain, plain_length);
}

#endif
