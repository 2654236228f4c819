#ifndef BUSBAR_HOST_H
#define BUSBAR_HOST_H 
#include <busbar/api.h>
struct bb_host {
    size_t size;
    const struct bb_api *api;
    const struct bb_module *module;
    void *state;
};
static inline void *bb_host_alloc(struct bb_host *host, size_t size)
{
    return host->api->host_alloc(host, size);
}
static inline const char *bb_setting_text(struct bb_host *host, const char *name)
{
    return host->api->setting_text(host, name);
}
static inline int64_t bb_setting_int(struct bb_host *host, const char *name)
{
    return host->api->setting_int(host, name);
}
static inline double bb_setting_number(struct bb_host *host, const char *name)
{
    return host->api->setting_number(host, name);
}
static inline json_t *bb_setting_json(struct bb_host *host, const char *name)
{
    return host->api->setting_json(host, name);
}
static inline const void *bb_settings(struct bb_host *host)
{
    return host->api->settings(host);
}
BB_PRINTF(2, 3)
static inline int bb_open_fail(struct bb_host *host, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int failed = host->api->open_fail(host, format, args);
    va_end(args);
    return failed;
}
static inline int bb_open_fail_text(struct bb_host *host, const char *text)
{
    return host->api->open_fail_text(host, text);
}
struct bb_service {
    const void *interface;
    void *state;
};
static inline struct bb_service bb_service(struct bb_host *host, const char *name)
{
    return host->api->service(host, name);
}
struct bb_given {
    size_t size;
    const char *name;
    unsigned version;
    const void *interface;
    struct bb_host *host;
};
static inline bool bb_service_at(struct bb_host *host, const char *kind, size_t index,
                                 struct bb_given *given)
{
    return host->api->service_at(host, kind, index, given);
}
BB_PRINTF(3, 4)
static inline void bb_host_log(struct bb_host *host, enum bb_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    host->api->host_log(host, level, format, args);
    va_end(args);
}
static inline void bb_host_log_text(struct bb_host *host, enum bb_level level, const char *text)
{
    host->api->host_log_text(host, level, text);
}
static inline int64_t bb_signals_fresh_ms(struct bb_host *host)
{
    return host->api->signals_fresh_ms(host);
}
struct bb_worker_context {
    size_t size;
    struct bb_host *host;
    int wake_fd;
};
static inline bool bb_stopping(struct bb_worker_context *context)
{
    return context->host->api->stopping(context);
}
static inline int64_t bb_leave_ms(struct bb_worker_context *context)
{
    return context->host->api->leave_ms(context);
}
static inline bool bb_drained(struct bb_worker_context *context)
{
    return context->host->api->drained(context);
}
static inline bool bb_superseded(struct bb_host *host)
{
    return host->api->superseded(host);
}
static inline void bb_wake(struct bb_host *host, const char *worker)
{
    host->api->wake(host, worker);
}
static inline int bb_run(struct bb_host *host, void (*work)(struct bb_request *rq, void *arg),
                         void *arg)
{
    return host->api->run(host, work, arg);
}
static inline int bb_run_then(struct bb_host *host, void (*work)(struct bb_request *rq, void *arg),
                              void (*then)(void *arg, bool whole), void *arg)
{
    return host->api->run_then(host, work, then, arg);
}
static inline size_t bb_event_names(struct bb_host *host, const char *const **names)
{
    return host->api->event_names(host, names);
}
static inline const struct bb_module *bb_module_at(struct bb_host *host, size_t index)
{
    return host->api->module_at(host, index);
}
static inline void bb_completion_signal(struct bb_host *host, struct bb_completion *completion)
{
    host->api->completion_signal(completion);
}
static inline void bb_metric_add(struct bb_host *host, size_t metric, size_t value, uint64_t by)
{
    host->api->metric_add(host, metric, value, by);
}
static inline int64_t bb_now_ms(struct bb_host *host)
{
    return host->api->now_ms();
}
static inline int64_t bb_wall_ms(struct bb_host *host)
{
    return host->api->wall_ms();
}
static inline int bb_random(struct bb_host *host, void *bytes, size_t length)
{
    (void)host;
    return host->api->random_bytes(bytes, length);
}
static inline int bb_seal(struct bb_host *host, const void *plain, size_t length,
                          const char *purpose, unsigned char **sealed, size_t *sealed_length)
{
    return host->api->seal(host, plain, length, purpose, sealed, sealed_length);
}
static inline int bb_unseal(struct bb_host *host, const void *sealed, size_t length,
                            const char *purpose, unsigned char **plain, size_t *plain_length)
{
    return host->api->unseal(host, sealed, length, purpose, plain, plain_length);
}
#endif
