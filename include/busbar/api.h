/*
 * The host's functions, as a table that the host passes to the module in its handle and in each
 * request. A module does not link against the host. Call the functions through the wrappers in
 * host.h, request.h, reply.h, wait.h, sql.h and event.h, which document them. Languages that cannot
 * use the wrappers call the table directly: every function has a variant without va_list.
 */
#ifndef BUSBAR_API_H
#define BUSBAR_API_H

#include <jansson.h>
#include <stdarg.h>

#include <busbar/module.h>

struct bb_sql;
struct bb_value;
struct bb_rows;
struct bb_audience;
struct bb_service;
struct bb_redis_reply;
struct bb_completion;
struct bb_stream;
struct bb_stream_options;
struct bb_chunk;
struct bb_file;
struct bb_given;

enum bb_level { BB_DEBUG, BB_INFO, BB_WARN, BB_ERROR };
/* See bb_probe(). */
enum bb_dependency { BB_DATABASE = 1, BB_REDIS, BB_SCHEMA, BB_HOST, BB_CLOCK };

struct bb_api {
    size_t size;
    unsigned minor; /* BB_ABI_MINOR of the host */

    /* host.h */
    void *(*host_alloc)(struct bb_host *, size_t);
    const char *(*setting_text)(struct bb_host *, const char *);
    int64_t (*setting_int)(struct bb_host *, const char *);
    double (*setting_number)(struct bb_host *, const char *);
    json_t *(*setting_json)(struct bb_host *, const char *);
    const void *(*settings)(struct bb_host *);
    int (*open_fail)(struct bb_host *, const char *, va_list);
    int (*open_fail_text)(struct bb_host *, const char *);
    struct bb_service (*service)(struct bb_host *, const char *);
    bool (*service_at)(struct bb_host *, const char *, size_t, struct bb_given *);
    const struct bb_module *(*module_at)(struct bb_host *, size_t);
    size_t (*event_names)(struct bb_host *, const char *const **);
    void (*host_log)(struct bb_host *, enum bb_level, const char *, va_list);
    void (*host_log_text)(struct bb_host *, enum bb_level, const char *);
    int64_t (*signals_fresh_ms)(struct bb_host *);
    int64_t (*now_ms)(void);
    int64_t (*wall_ms)(void);
    int (*random_bytes)(void *, size_t);
    int (*seal)(struct bb_host *, const void *, size_t, const char *, unsigned char **, size_t *);
    int (*unseal)(struct bb_host *, const void *, size_t, const char *, unsigned char **, size_t *);
    void (*metric_add)(struct bb_host *, size_t, size_t, uint64_t);
    bool (*superseded)(struct bb_host *);
    int (*run)(struct bb_host *, void (*)(struct bb_request *, void *), void *);
    int (*run_then)(struct bb_host *, void (*)(struct bb_request *, void *), void (*)(void *, bool),
                    void *);
    void (*wake)(struct bb_host *, const char *);

    /* host.h: workers */
    bool (*stopping)(struct bb_worker_context *);
    int64_t (*leave_ms)(struct bb_worker_context *);
    bool (*drained)(struct bb_worker_context *);

    /* request.h */
    void *(*alloc)(struct bb_request *, size_t);
    char *(*vformat)(struct bb_request *, const char *, va_list);
    void (*defer)(struct bb_request *, void (*)(void *), void *);
    int (*scratch)(struct bb_request *, int (*)(struct bb_request *, void *), void *);
    const char *(*segment)(struct bb_request *, const char *);
    int64_t (*segment_int)(struct bb_request *, const char *);
    const char *(*arg)(struct bb_request *, const char *);
    int64_t (*arg_int)(struct bb_request *, const char *, int64_t);
    json_t *(*body)(struct bb_request *);
    const struct bb_file *(*file)(struct bb_request *, size_t);
    json_t *(*check)(struct bb_request *, const struct bb_table *, json_t *, json_t *);
    const char *(*header)(struct bb_request *, const char *);
    const char *(*client_address)(struct bb_request *);
    int (*probe)(struct bb_request *, enum bb_dependency, int64_t *);
    const char *(*standstill)(struct bb_request *);
    const char *(*pause_reason)(struct bb_request *);
    uint64_t (*answered)(struct bb_request *);
    char *(*metrics)(struct bb_request *, size_t *);
    char *(*new_uuid)(struct bb_request *);
    char *(*time_text)(struct bb_request *, int64_t);
    char *(*json)(struct bb_request *, const json_t *, size_t *);
    json_t *(*json_read)(struct bb_request *, const char *);
    void (*log)(struct bb_request *, enum bb_level, const char *, va_list);
    void (*log_text)(struct bb_request *, enum bb_level, const char *);
    void (*vprint)(struct bb_request *, const char *, va_list);
    void (*print_text)(struct bb_request *, const char *);
    void (*again)(struct bb_request *);
    int (*call_as)(struct bb_request *, struct bb_host *, int (*)(struct bb_request *, void *),
                   void *);

    /* reply.h */
    int (*reply)(struct bb_request *, int, json_t *);
    int (*reply_bytes)(struct bb_request *, int, const char *, const void *, size_t);
    int (*reply_file)(struct bb_request *, int, int64_t);
    int (*vfail)(struct bb_request *, int, const char *, va_list);
    int (*fail_text)(struct bb_request *, int, const char *);
    int (*vfail_listed)(struct bb_request *, int, json_t *, const char *, va_list);
    int (*fail_listed_text)(struct bb_request *, int, json_t *, const char *);
    int (*vinvalid)(struct bb_request *, const char *, const char *, va_list);
    int (*invalid_text)(struct bb_request *, const char *, const char *);
    int (*refuse)(struct bb_request *, json_t *);
    int (*failed)(struct bb_request *);
    int (*reply_header)(struct bb_request *, const char *, const char *);
    int (*reply_next)(struct bb_request *, const char *);
    void (*vwarn)(struct bb_request *, const char *, va_list);
    void (*warn_text)(struct bb_request *, const char *);

    /* wait.h */
    int (*offload)(struct bb_request *, const char *, void (*)(void *), void *);
    int (*offload_for)(struct bb_request *, const char *, uint64_t, void (*)(void *), void *);
    const struct bb_redis_reply *(*redis)(struct bb_request *, int, const char *const *,
                                          const size_t *);
    struct bb_completion *(*completion)(struct bb_request *);
    int (*completion_wait)(struct bb_request *, struct bb_completion *, int64_t);
    void (*completion_signal)(struct bb_completion *);

    /* sql.h */
    struct bb_rows *(*query)(struct bb_request *, const struct bb_sql *, const struct bb_value *,
                             size_t);
    size_t (*rows_count)(const struct bb_rows *);
    size_t (*rows_affected)(const struct bb_rows *);
    const char *(*rows_text)(const struct bb_rows *, size_t, size_t);
    size_t (*rows_length)(const struct bb_rows *, size_t, size_t);
    const char *(*sqlstate)(struct bb_request *);
    const char *(*constraint)(struct bb_request *);
    struct bb_tx *(*unit)(struct bb_request *, uint64_t);
    int (*add)(struct bb_tx *, const struct bb_sql *, const struct bb_value *, size_t);
    int (*commit)(struct bb_request *, struct bb_tx *, int, json_t *);
    struct bb_rows *(*unit_rows)(struct bb_tx *, int);
    int (*transaction)(struct bb_request *, int (*)(struct bb_request *, struct bb_tx *, void *),
                       void *);
    struct bb_rows *(*tx_query)(struct bb_tx *, const struct bb_sql *, const struct bb_value *,
                                size_t);
    int64_t (*next_id)(struct bb_request *, const char *);
    void (*after)(struct bb_tx *, void (*)(struct bb_request *, struct bb_tx *, void *), void *);
    void *(*before)(struct bb_tx *, int (*)(struct bb_request *, struct bb_tx *, void *), size_t);

    /* event.h */
    int (*emit)(struct bb_tx *, const char *, json_t *, const struct bb_audience *);

    /* stream.h */
    int (*stream_open)(struct bb_request *, const struct bb_stream_options *, struct bb_stream **);
    int (*stream_join)(struct bb_host *, struct bb_stream *, const char *);
    size_t (*stream_publish)(struct bb_host *, const char *, struct bb_chunk *);
    int (*stream_send)(struct bb_stream *, struct bb_chunk *);
    size_t (*stream_waiting)(struct bb_stream *);
    void (*stream_end)(struct bb_stream *);
    void (*stream_cut)(struct bb_stream *);
    struct bb_chunk *(*chunk_new)(size_t);
    void (*chunk_release)(struct bb_chunk *);
    size_t (*stream_publish_to)(struct bb_host *, const char *const *, size_t, struct bb_chunk *);
    const char *(*probe_problem)(struct bb_request *, enum bb_dependency);
    int (*guard)(struct bb_request *, void (*)(struct bb_request *, void *), void *);
    void (*end)(struct bb_request *, int);
    void (*set_code)(struct bb_request *, json_t *);
    void (*audit)(struct bb_request *, const char *);
    int (*if_match)(struct bb_request *, json_t *);
    void (*yield_now)(struct bb_request *);
};

#endif
