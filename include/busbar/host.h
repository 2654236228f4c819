/*
 * The handle of a module. Each module has a handle in each generation, valid from `open` until
 * `close` returns. Every function may be called from any host thread unless documented otherwise.
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

/* Returns zeroed memory that lives as long as the generation; NULL: no memory. Only in `open`. */
static inline void *bb_host_alloc(struct bb_host *host, size_t size)
{
    return host->api->host_alloc(host, size);
}

/*
 * Returns the value, or else the default, of the setting of this name in the module's table. The
 * text is borrowed and lives as long as the generation. If the setting is undeclared or has another
 * type, logs an error and returns an empty value ("", 0 or NULL); if this happens in `open`, the
 * host refuses the generation.
 */
static inline const char *bb_setting_text(struct bb_host *host, const char *name)
{
    return host->api->setting_text(host, name);
}

/* Like bb_setting_text() for BB_INT and BB_BOOL (0 or 1). */
static inline int64_t bb_setting_int(struct bb_host *host, const char *name)
{
    return host->api->setting_int(host, name);
}

static inline double bb_setting_number(struct bb_host *host, const char *name)
{
    return host->api->setting_number(host, name);
}

/* Like bb_setting_text() for BB_LIST and BB_OBJECT; NULL if absent. */
static inline json_t *bb_setting_json(struct bb_host *host, const char *name)
{
    return host->api->setting_json(host, name);
}

/*
 * Returns the module's struct of `settings_size` bytes, in which each bound setting (struct
 * bb_bind) has its value or its default; all other members are zero. The struct is created before
 * `open`, must not be written to, and lives as long as the generation, as do the texts and JSON
 * that it points to. Returns NULL if `settings_size` is 0. Any thread.
 *
 *     const struct hello_settings *settings = bb_settings(host);
 */
static inline const void *bb_settings(struct bb_host *host)
{
    return host->api->settings(host);
}

/* Sets the reason why `open` fails and returns -1: `return bb_open_fail(host, "…")`. */
BB_PRINTF(2, 3)
static inline int bb_open_fail(struct bb_host *host, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int failed = host->api->open_fail(host, format, args);
    va_end(args);
    return failed;
}

/* Like bb_open_fail(), but `text` is not a format. */
static inline int bb_open_fail_text(struct bb_host *host, const char *text)
{
    return host->api->open_fail_text(host, text);
}

/* A service of another module of the same generation. */
struct bb_service {
    const void *interface; /* cast to the interface in the service's header; NULL if not provided */
    void *state;
};

/*
 * Returns a service that the module names in `needs` or `wants`. Services in `needs` are available
 * in `open`. Services in `wants` are available from `start` on; if no module provides such a
 * service, its interface is NULL.
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
 * Gets the service with this index among the services whose names begin with `kind`, in the order
 * of their modules; returns false after the last one. The module's `wants` must contain `kind`
 * followed by "*": "bulk rows:*" for "bulk rows:". In `open` use it only to count: it does not set
 * *given, and counts one service more if modules are disabled, because they may provide one.
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

/* Like bb_host_log(), but `text` is not a format. */
static inline void bb_host_log_text(struct bb_host *host, enum bb_level level, const char *text)
{
    host->api->host_log_text(host, level, text);
}

/*
 * Returns for how many more milliseconds the module may assume that it has received all
 * notifications of its channels. If the result is 0 or less, query the database. The host queries
 * PostgreSQL several times a second; when the response arrives, the host has received every
 * notification that was committed before it sent the query.
 */
static inline int64_t bb_signals_fresh_ms(struct bb_host *host)
{
    return host->api->signals_fresh_ms(host);
}

/* The argument of a worker, valid while the worker's function runs. */
struct bb_worker_context {
    size_t size;
    struct bb_host *host;
    int wake_fd; /* an eventfd, readable after bb_wake() and when stopping; read() resets it */
};

/* Returns whether the worker should return. */
static inline bool bb_stopping(struct bb_worker_context *context)
{
    return context->host->api->stopping(context);
}

/*
 * Returns how many more milliseconds a worker may use to finish its work after bb_stopping() became
 * true: few if the host is stopping, up to `reload.drain` after a reload. A later call may return
 * less, because the host may stop during a drain.
 */
static inline int64_t bb_leave_ms(struct bb_worker_context *context)
{
    return context->host->api->leave_ms(context);
}

/*
 * Returns whether no request of the worker's generation is in progress. After bb_stopping() became
 * true, no request can need the worker any more once bb_drained() returns true. A worker that
 * serves requests should continue until then, or until bb_leave_ms() have passed.
 */
static inline bool bb_drained(struct bb_worker_context *context)
{
    return context->host->api->drained(context);
}

/*
 * Returns whether a newer generation is live, so that this generation gets no new requests and
 * should end its long-lived work. Also returns true after an interrupt of a command with
 * BB_COMMAND_LONG. Any thread.
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
 * Runs work(rq, arg) soon, as a request on a loop of the host. Any thread. Returns 0. Returns -1 if
 * memory ran out, or in `open` or `close`: `work` is not called, and the caller still owns `arg`.
 *
 * If the request runs out of memory, it ends before or in the middle of `work`. Use bb_run_then()
 * if you must be notified of the end, for example to free `arg`.
 */
static inline int bb_run(struct bb_host *host, void (*work)(struct bb_request *rq, void *arg),
                         void *arg)
{
    return host->api->run(host, work, arg);
}

/*
 * Like bb_run(), and calls then(arg, whole) exactly once after the request has ended and its memory
 * is freed. `then` runs on the loop's thread and must not wait. `whole` is false if memory ran out
 * before `work` returned; `work` may not have been called at all. The module's state still exists.
 * If -1 is returned, `then` is not called.
 */
static inline int bb_run_then(struct bb_host *host, void (*work)(struct bb_request *rq, void *arg),
                              void (*then)(void *arg, bool whole), void *arg)
{
    return host->api->run_then(host, work, then, arg);
}

/* Sets *names to the names of all declared events, and returns their number. Only after `open`. */
static inline size_t bb_event_names(struct bb_host *host, const char *const **names)
{
    return host->api->event_names(host, names);
}

/*
 * Returns the descriptor with this index among this generation's modules in load order; NULL after
 * the last one. Descriptors are borrowed and live as long as the generation. Use them only to
 * describe the modules; do not call their functions. Rows of a table are `stride` bytes apart.
 */
static inline const struct bb_module *bb_module_at(struct bb_host *host, size_t index)
{
    return host->api->module_at(host, index);
}

/* Signals a completion (wait.h). Call it once, and do not use the completion later. Any thread. */
static inline void bb_completion_signal(struct bb_host *host, struct bb_completion *completion)
{
    host->api->completion_signal(completion);
}

/*
 * Adds `by` to a metric without `read`. `metric` is its row in the module's table, and `value` is
 * the index of the label's value (0 without a label). Any thread; takes no lock.
 */
static inline void bb_metric_add(struct bb_host *host, size_t metric, size_t value, uint64_t by)
{
    host->api->metric_add(host, metric, value, by);
}

/* Returns the milliseconds of the monotonic clock. */
static inline int64_t bb_now_ms(struct bb_host *host)
{
    return host->api->now_ms();
}

/*
 * Returns the milliseconds since 1970-01-01T00:00:00Z by PostgreSQL's clock, which all hosts of a
 * cluster share; until PostgreSQL has responded for the first time, by this host's clock.
 */
static inline int64_t bb_wall_ms(struct bb_host *host)
{
    return host->api->wall_ms();
}

/* Fills `bytes` with cryptographically strong random bytes. Returns 0 or -1. */
static inline int bb_random(struct bb_host *host, void *bytes, size_t length)
{
    (void)host;
    return host->api->random_bytes(bytes, length);
}

/*
 * Encrypts with the newest key of `secrets.keys` (AES-256-GCM). Decryption needs the same
 * `purpose`. The caller frees *sealed with free(). Returns 0 or -1.
 */
static inline int bb_seal(struct bb_host *host, const void *plain, size_t length,
                          const char *purpose, unsigned char **sealed, size_t *sealed_length)
{
    return host->api->seal(host, plain, length, purpose, sealed, sealed_length);
}

/*
 * Decrypts a result of bb_seal() with any of the configured keys. *plain ends with a NUL; the
 * caller frees it with free(). Returns 0, -1 if no key decrypts it, or -2 if memory ran out. After
 * -2, bb_reply() with NULL as JSON answers with 503.
 */
static inline int bb_unseal(struct bb_host *host, const void *sealed, size_t length,
                            const char *purpose, unsigned char **plain, size_t *plain_length)
{
    return host->api->unseal(host, sealed, length, purpose, plain, plain_length);
}

#endif
