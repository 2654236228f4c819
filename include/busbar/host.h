/*
 * The module's handle: one for each module in each generation, valid from `open` until `close`
 * returns. Every function may be called from any thread of the host unless it says otherwise.
 */
#ifndef BUSBAR_HOST_H
#define BUSBAR_HOST_H

#include <busbar/api.h>

struct bb_host {
    size_t size;
    const struct bb_api *api;
    const struct bb_module *module;
    void *state; /* what `open` returned */
};

/* Zeroed memory that lives as long as the generation; NULL when there is none. Only in `open`. */
static inline void *bb_host_alloc(struct bb_host *host, size_t size)
{
    return host->api->host_alloc(host, size);
}

/*
 * A setting of the module's own section, by the name in its table: its value or its default.
 * Text is borrowed and lives as long as the generation. An undeclared name, or a name of another
 * type, is logged and reads as empty or 0; in `open` the host refuses the generation. The fake host
 * aborts, so that the module's first test finds it.
 */
static inline const char *bb_setting_text(struct bb_host *host, const char *name)
{
    return host->api->setting_text(host, name);
}

/* BB_INT and BB_BOOL (0 or 1). */
static inline int64_t bb_setting_int(struct bb_host *host, const char *name)
{
    return host->api->setting_int(host, name);
}

static inline double bb_setting_number(struct bb_host *host, const char *name)
{
    return host->api->setting_number(host, name);
}

/* BB_LIST and BB_OBJECT, borrowed; NULL if absent. */
static inline json_t *bb_setting_json(struct bb_host *host, const char *name)
{
    return host->api->setting_json(host, name);
}

/*
 * The module's struct of `settings_size` bytes, in which each setting that is bound (struct
 * bb_bind) has its value or its default; all else in it is zero. It is made before `open`, must not
 * be written to, and lives as long as the generation, as do the texts and JSON that it points to.
 * NULL where the module has no `settings_size`. Any thread. Since minor 11.
 *
 *     const struct hello_settings *settings = bb_settings(host);
 */
static inline const void *bb_settings(struct bb_host *host)
{
    return host->api->settings(host);
}

/* Says why `open` fails: `return bb_open_fail(host, "…")`. Always returns -1. */
BB_PRINTF(2, 3)
static inline int bb_open_fail(struct bb_host *host, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    int failed = host->api->open_fail(host, format, args);
    va_end(args);
    return failed;
}

/* The same with a text, which is no format. Since minor 3. */
static inline int bb_open_fail_text(struct bb_host *host, const char *text)
{
    return host->api->open_fail_text(host, text);
}

/* A service of another module of the same generation: its interface and the provider's state. */
struct bb_service {
    const void *interface; /* cast to the interface of the service's header; NULL if not given */
    void *state;
};

/*
 * A service named in `needs`, whose provider has been opened before; or in `wants`, from `start`
 * on: then the interface is NULL where no module gives it.
 */
static inline struct bb_service bb_service(struct bb_host *host, const char *name)
{
    return host->api->service(host, name);
}

/* A service of a kind of which several modules may give one each, as "bulk rows:Devices". */
struct bb_given {
    size_t size; /* set by the caller */
    const char *name;
    unsigned version;
    const void *interface;
    struct bb_host *host; /* of the giver, for bb_call_as() */
};

/*
 * The services whose names begin with `kind`, in the order of their modules: false behind the last
 * one. From `start` on; `wants` has a row for all of them, "bulk rows:*" for "bulk rows:". Since
 * minor 4.
 */
static inline bool bb_service_at(struct bb_host *host, const char *kind, size_t index,
                                 struct bb_given *given)
{
    return host->api->service_at(host, kind, index, given);
}

/* A line in the log. Text from outside is escaped by the host. No secrets, no message texts. */
BB_PRINTF(3, 4)
static inline void bb_host_log(struct bb_host *host, enum bb_level level, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    host->api->host_log(host, level, format, args);
    va_end(args);
}

/* The same with a text, which is no format. Since minor 3. */
static inline void bb_host_log_text(struct bb_host *host, enum bb_level level, const char *text)
{
    host->api->host_log_text(host, level, text);
}

/*
 * For how many milliseconds from now what was heard on channels is still known to be complete: the
 * host asks PostgreSQL several times a second, and every notification committed before the question
 * was sent has been heard when the answer is here. 0 or less: not known; look in the database.
 */
static inline int64_t bb_signals_fresh_ms(struct bb_host *host)
{
    return host->api->signals_fresh_ms(host);
}

/* What a worker is given; valid while its function runs. */
struct bb_worker_context {
    size_t size;
    struct bb_host *host;
    int wake_fd; /* an eventfd: readable after bb_wake() and when stopping; read it empty */
};

/* Whether the worker is to return. */
static inline bool bb_stopping(struct bb_worker_context *context)
{
    return context->host->api->stopping(context);
}

/*
 * For how many milliseconds yet a worker may finish what it has begun, once bb_stopping(): short
 * where the host stops, `reload.drain` where another generation is live. It may get shorter.
 */
static inline int64_t bb_leave_ms(struct bb_worker_context *context)
{
    return context->host->api->leave_ms(context);
}

/*
 * Once bb_stopping(): whether the last request of the worker's generation has ended, so that nobody
 * is left who could ask it for something. Before that, whether none is under way. A worker that
 * serves requests goes on until then, or until bb_leave_ms() have passed. Since minor 11.
 */
static inline bool bb_drained(struct bb_worker_context *context)
{
    return context->host->api->drained(context);
}

/*
 * Whether a newer generation is live: new requests no longer come here, and what lasts is to come
 * to an end. Also once a command with BB_COMMAND_LONG was interrupted. Any thread.
 */
static inline bool bb_superseded(struct bb_host *host)
{
    return host->api->superseded(host);
}

/* Makes the wake_fd of a worker readable. Any thread; no effect while it does not run. */
static inline void bb_wake(struct bb_host *host, const char *worker)
{
    host->api->wake(host, worker);
}

/*
 * Runs work(rq, arg) as a request on a loop of the host, soon; any thread. 0; or -1 when memory ran
 * out or the host is stopping: then work is not called, and arg is still the caller's.
 *
 * A request that gets no memory ends in the middle of `work`, or before it. Whoever waits for the
 * end, or has given `arg` away, uses bb_run_then().
 */
static inline int bb_run(struct bb_host *host, void (*work)(struct bb_request *rq, void *arg),
                         void *arg)
{
    return host->api->run(host, work, arg);
}

/*
 * The same, and then(arg, whole) is called exactly once when the request has ended and its memory
 * is freed: on the loop's thread, where it must not wait. `whole` is false where memory ran out
 * before `work` returned; it may not have been called at all. The module's state is still there.
 * Where -1 is returned `then` is not called. Since minor 2.
 */
static inline int bb_run_then(struct bb_host *host, void (*work)(struct bb_request *rq, void *arg),
                              void (*then)(void *arg, bool whole), void *arg)
{
    return host->api->run_then(host, work, then, arg);
}

/* The names of all events that the loaded modules declare; after `open`. Returns how many. */
static inline size_t bb_event_names(struct bb_host *host, const char *const **names)
{
    return host->api->event_names(host, names);
}

/*
 * What the loaded modules of this generation bring, in the order in which they were loaded: NULL
 * behind the last one. Borrowed, as long as the generation; for who describes them, for their
 * functions are theirs to call. Rows lie as far apart as the stride of their table says. Since
 * minor 5.
 */
static inline const struct bb_module *bb_module_at(struct bb_host *host, size_t index)
{
    return host->api->module_at(host, index);
}

/* Signals a completion (request.h); any thread, exactly once for each. It must not be used after.
 */
static inline void bb_completion_signal(struct bb_host *host, struct bb_completion *completion)
{
    host->api->gate_open(completion);
}

/*
 * Counts up a metric of the module's own table without `read`: the row, the index of the label's
 * value (0 without a label), by how much. Any thread; nothing is locked. Since minor 1.
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
 * Milliseconds since 1970-01-01T00:00:00Z, by PostgreSQL's clock, which all hosts of a cluster
 * share; by this host's own as long as PostgreSQL has not answered yet.
 */
static inline int64_t bb_wall_ms(struct bb_host *host)
{
    return host->api->wall_ms();
}

/* Cryptographically strong random bytes. 0, or -1. */
static inline int bb_random(struct bb_host *host, void *bytes, size_t length)
{
    (void)host;
    return host->api->random_bytes(bytes, length);
}

/*
 * Encrypts under the newest key of `secrets.keys` (AES-256-GCM); `purpose` is bound to the result,
 * which opens only under the same purpose. *sealed is given: free() it. 0, or -1.
 */
static inline int bb_seal(struct bb_host *host, const void *plain, size_t length,
                          const char *purpose, unsigned char **sealed, size_t *sealed_length)
{
    return host->api->seal(host, plain, length, purpose, sealed, sealed_length);
}

/*
 * The reverse; any of the configured keys. *plain is given and ends with a NUL. 0; -1 if none of
 * the keys opens it; -2 if there is no memory.
 */
static inline int bb_unseal(struct bb_host *host, const void *sealed, size_t length,
                            const char *purpose, unsigned char **plain, size_t *plain_length)
{
    return host->api->unseal(host, sealed, length, purpose, plain, plain_length);
}

#endif
